//! How ranks agree on the digest of a step, and compare what several of them hold.
//!
//! Each rank sends the sums of the elements that count on it. Of all that it holds together with other ranks, it sends one
//! number per phase and set of axes, in 8 bytes, so copies cost next to nothing as long as they agree. If they do not, the
//! ranks exchange the sums of each tensor, and vote.

use super::{
    GRADIENTS, Phase, StepDigest, TensorDigest,
    vote::{Verdict, vote},
};
use crate::{Error, Result};
use grid::Axis;
use parallel::{
    Context,
    digest::{BLOCKS, Hashed},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

// What a rank sends about a phase.
#[derive(Serialize, Deserialize)]
struct Own {
    // Name, sums and their blocks, of what counts here.
    counted: Vec<(String, BTreeMap<usize, u64>)>,
    copies: BTreeMap<usize, u64>,
    // For each set of axes along which tensors of this rank have copies: which tensors these are, and their sums, as a
    // number each.
    classes: Vec<(Vec<Axis>, [u64; 2])>,
}

/// The digest of a step, on every rank, from what each holds in each phase. `declared` has the places of the model's
/// parameters in the order of their declaration. Collective.
///
/// # Errors
/// [`Error::Replicas`] if ranks that should hold the same do not; [`Error::Parallel`] from the exchange.
pub(crate) fn gather(
    context: &Context,
    step: u64,
    phases: &[(String, Vec<Hashed>)],
    declared: &HashMap<&str, usize>,
) -> Result<StepDigest> {
    let own: Vec<Own> = phases.iter().map(|(_, held)| Own::of(held)).collect();
    let all: Vec<Vec<Own>> = exchange(context, &own)?;
    for (index, (name, held)) in phases.iter().enumerate() {
        // Ranks with the same tensors of a class have the same sums.
        let mut seen = BTreeMap::new();
        let mut classes = all.iter().flat_map(|own| &own[index].classes);
        let agree = classes.all(|(axes, [tensors, sums])| {
            let other = seen.insert((axes, tensors), sums);
            other.is_none_or(|other| other == sums)
        });
        if !agree {
            return Err(judge(context, (step, name), held, declared)?);
        }
    }
    let merged = phases.iter().enumerate().map(|(index, (name, _))| {
        let own = all.iter().map(|own| &own[index]);
        merge(name, own, declared)
    });
    let grid = context.grid().degrees().to_string();
    Ok(StepDigest::new(step, grid, merged.collect()))
}

// The place of a tensor in the order in which forward reads or makes it: of a parameter, among the declared ones; of what a
// segment returns, the segment.
fn order(declared: &HashMap<&str, usize>, name: &str) -> usize {
    let of_segment = || {
        name.strip_prefix("segment ")?
            .split(',')
            .next()?
            .parse()
            .ok()
    };
    let declared = declared.get(name).copied();
    declared.or_else(of_segment).unwrap_or(usize::MAX)
}

fn merge<'a>(
    name: &str,
    all: impl Iterator<Item = &'a Own>,
    declared: &HashMap<&str, usize>,
) -> Phase {
    let (mut copies, mut tensors) = (BTreeMap::new(), BTreeMap::new());
    for (rank, own) in all.enumerate() {
        for (number, elements) in &own.copies {
            *copies.entry(*number).or_default() += elements;
        }
        for (name, sums) in &own.counted {
            let tensor = tensors
                .entry((order(declared, name), name))
                .or_insert_with(|| TensorDigest {
                    name: name.clone(),
                    sums: [0; BLOCKS],
                    ranks: vec![Vec::new(); BLOCKS],
                });
            for (block, sum) in sums {
                tensor.sums[*block] = tensor.sums[*block].wrapping_add(*sum);
                tensor.ranks[*block].push(rank);
            }
        }
    }
    let mut tensors: Vec<TensorDigest> = tensors.into_values().collect();
    for TensorDigest { ranks, .. } in &mut tensors {
        if ranks.iter().all(|of_block| *of_block == ranks[0]) {
            ranks.truncate(1);
        }
    }
    Phase {
        name: name.to_owned(),
        copies,
        tensors,
    }
}

impl Own {
    fn of(held: &[Hashed]) -> Own {
        let (mut counted, mut copies) = (Vec::new(), BTreeMap::new());
        let mut classes: BTreeMap<Vec<Axis>, (DefaultHasher, DefaultHasher)> = BTreeMap::new();
        for held in held {
            if held.counts {
                counted.push((held.name.clone(), held.sums.clone()));
                *copies.entry(held.copies).or_default() += held.range.len() as u64;
            }
            if held.copies > 1 {
                let (tensors, sums) = classes.entry(held.replicas.clone()).or_default();
                (&held.name, &held.index, &held.range).hash(tensors);
                held.sums.hash(sums);
            }
        }
        let finish = |(axes, (tensors, sums)): (_, (DefaultHasher, DefaultHasher))| {
            (axes, [tensors.finish(), sums.finish()])
        };
        Own {
            counted,
            copies,
            classes: classes.into_iter().map(finish).collect(),
        }
    }
}

// What a rank holds of a tensor: its place among all elements, and the hash of its sums.
type Copy = (String, u64, u64);

// Finds the tensor that the step reaches first of those whose copies differ, and who is wrong. Collective.
fn judge(
    context: &Context,
    (step, phase): (u64, &str),
    held: &[Hashed],
    declared: &HashMap<&str, usize>,
) -> Result<Error> {
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    let own: Vec<Copy> = held
        .iter()
        .filter(|held| held.copies > 1)
        .map(|held| {
            let place = hash(&|hasher| (&held.index, &held.range).hash(hasher));
            (
                held.name.clone(),
                place,
                hash(&|hasher| held.sums.hash(hasher)),
            )
        })
        .collect();
    let all: Vec<Vec<Copy>> = exchange(context, &own)?;
    let mut copies: BTreeMap<(&str, u64), BTreeMap<usize, u64>> = BTreeMap::new();
    for (rank, own) in all.iter().enumerate() {
        for (name, place, sums) in own {
            copies
                .entry((name.as_str(), *place))
                .or_default()
                .insert(rank, *sums);
        }
    }
    let mut copies: Vec<_> = copies.into_iter().collect();
    copies.sort_by_key(|((name, _), _)| order(declared, name));
    if phase == GRADIENTS {
        copies.reverse();
    }
    for ((tensor, _), copies) in &copies {
        let wrong = match vote(copies) {
            Verdict::Agreed => continue,
            Verdict::Outvoted(ranks) => Some(ranks),
            Verdict::Split => None,
        };
        return Ok(Error::Replicas {
            step,
            phase: phase.to_owned(),
            tensor: (*tensor).to_owned(),
            holders: copies.keys().copied().collect(),
            wrong,
        });
    }
    let found = format!("{phase}: sums that differ in all and agree in each tensor");
    Err(parallel::Error::invalid("digest", found, "a bug of ours").into())
}

fn exchange<T: Serialize + DeserializeOwned>(context: &Context, own: &T) -> Result<Vec<T>> {
    let refuse = |error: serde_json::Error| Error::setting("digest", error, "one that is JSON");
    let text = serde_json::to_vec(own).map_err(refuse)?;
    let all = context.world().everyone().all_gather(&text)?;
    let parsed = all.iter().map(|text| serde_json::from_slice(text));
    parsed.collect::<serde_json::Result<_>>().map_err(refuse)
}
