//! Digests of training steps: the same on every grid where sums are reproducible, and a sentinel on each.
//!
//! Read in this order: [`StepDigest`] (what a run records), `gather` (how ranks agree on one, and compare what several of
//! them hold), `vote` (which of them is wrong), [`diff`](fn@diff) (where two runs part).

mod diff;
mod gather;
mod vote;

pub use diff::{Comparison, DigestDiff, RecordDiff, diff};
pub(crate) use gather::gather;

use crate::{checkpoint::Digest, metrics::Stepped};
use parallel::digest::BLOCKS;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, fmt::Write as _};

/// The weights as the step reads them.
pub const START: &str = "start";
/// What the segments return in forward.
pub const FORWARD: &str = "forward";
/// The gradients, summed over all ranks, before clipping.
pub const GRADIENTS: &str = "gradients";
/// The weights after the update.
pub const WEIGHTS: &str = "weights";

/// What a step computed, in a form that no grid changes. A line of `digests.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDigest {
    /// The step, counted from 1.
    pub step: u64,
    /// SHA-256, in hexadecimal, of the sums of what the step leaves: gradients, weights, and the optimiser's states.
    pub digest: String,
    /// The grid.
    pub grid: String,
    /// The phases in the order of a step: start, forward, gradients, weights, and the optimiser's states.
    pub phases: Vec<Phase>,
}

/// The tensors of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How many elements have how many copies on other ranks, itself included: those with several are compared.
    pub copies: BTreeMap<usize, u64>,
    /// Its tensors, in the order of their declaration; in forward, of the segments.
    pub tensors: Vec<TensorDigest>,
}

/// The hashes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorDigest {
    /// Its name.
    pub name: String,
    /// The sum of each block; in JSON 16 hexadecimal digits each.
    #[serde(serialize_with = "to_hex", deserialize_with = "from_hex")]
    pub sums: [u64; BLOCKS],
    /// For each block the ranks whose elements it has; a single entry if all blocks have those of the same ranks.
    pub ranks: Vec<Vec<usize>>,
}

impl StepDigest {
    fn new(step: u64, grid: String, phases: Vec<Phase>) -> StepDigest {
        let mut root = Sha256::new_with_prefix("fascicle step digest 1\n");
        for phase in phases
            .iter()
            .filter(|phase| ![START, FORWARD].contains(&phase.name.as_str()))
        {
            for tensor in &phase.tensors {
                // JSON keeps names apart from what follows.
                let names = serde_json::to_string(&(&phase.name, &tensor.name));
                root.update(names.expect("a bug: names are plain values"));
                root.update(hex(&tensor.sums));
                root.update("\n");
            }
        }
        StepDigest {
            step,
            digest: Digest(root.finalize().into()).to_string(),
            grid,
            phases,
        }
    }

    /// A phase by its name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

impl TensorDigest {
    /// The ranks whose elements a block has.
    pub fn ranks_of(&self, block: usize) -> &[usize] {
        let one = match self.ranks.len() {
            1 => 0,
            _ => block,
        };
        self.ranks.get(one).map_or(&[], Vec::as_slice)
    }
}

impl Phase {
    /// The fractions of the elements of which there is one copy, whose faults only another run shows; two, whose faults are
    /// seen; and more, where the wrong rank is named as well.
    pub fn covered(&self) -> [f64; 3] {
        let all: u64 = self.copies.values().sum();
        let part = |has: &dyn Fn(usize) -> bool| {
            let of_these = self.copies.iter().filter(|(copies, _)| has(**copies));
            of_these.map(|(_, elements)| *elements).sum::<u64>() as f64 / all.max(1) as f64
        };
        [part(&|n| n == 1), part(&|n| n == 2), part(&|n| n > 2)]
    }
}

impl Stepped for StepDigest {
    const IN_EVERY_STEP: bool = false;

    fn step(&self) -> u64 {
        self.step
    }
}

fn hex(sums: &[u64; BLOCKS]) -> String {
    sums.iter().fold(String::new(), |mut text, sum| {
        write!(text, "{sum:016x}").expect("text takes all");
        text
    })
}

fn to_hex<S: Serializer>(sums: &[u64; BLOCKS], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(sums))
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u64; BLOCKS], D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut sums = [0; BLOCKS];
    for (block, sum) in sums.iter_mut().enumerate() {
        let digits = text.get(block * 16..block * 16 + 16);
        *sum = digits
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| D::Error::custom(format!("sums: needs {} digits", BLOCKS * 16)))?;
    }
    Ok(sums)
}
