//! The combined result of all ranks of a training.

use crate::{Disagreement, Observed, observed::Shard};
use parallel::Counters;
use std::collections::BTreeMap;

/// The results of a training.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Loss of each step.
    pub losses: Vec<f64>,
    /// Norm of the gradients of each step.
    pub norms: Vec<f64>,
    /// The full gradient of each parameter in the first step, row-major.
    pub first_gradients: BTreeMap<String, Vec<f64>>,
    /// The same in the last step.
    pub gradients: BTreeMap<String, Vec<f64>>,
    /// The full weights after the last step.
    pub weights: BTreeMap<String, Vec<f64>>,
    /// What each rank's collectives moved in the last step.
    pub counters: Vec<Counters>,
    /// Number of collective kinds that ran in two levels over nodes, over all ranks and steps.
    pub in_levels: usize,
    /// The peak number of bytes that tensors held, by rank.
    pub peak_bytes: Vec<usize>,
}

impl Outcome {
    /// Combines the results of the ranks of a grid, given in order of ranks.
    ///
    /// # Errors
    /// [`Disagreement::Curves`] if two ranks report different losses or norms; [`Disagreement::Replicas`] if replicas
    /// of a parameter or its gradient differ in a bit; [`Disagreement::NoRank`] for no ranks.
    pub fn join(ranks: Vec<Observed>) -> Result<Outcome, Disagreement> {
        let first = ranks.first().ok_or(Disagreement::NoRank)?;
        let mut outcome = Outcome {
            losses: first.losses.clone(),
            norms: first.norms.clone(),
            ..Outcome::default()
        };
        for (rank, seen) in ranks.into_iter().enumerate() {
            let agrees = seen.losses == outcome.losses && seen.norms == outcome.norms;
            if !agrees {
                return Err(Disagreement::Curves { rank });
            }
            let [first, last] = seen.gradients;
            for (whole, shards) in [
                (&mut outcome.first_gradients, first),
                (&mut outcome.gradients, last),
                (&mut outcome.weights, seen.weights),
            ] {
                shards
                    .into_iter()
                    .try_for_each(|shard| place(whole, shard))?;
            }
            outcome.counters.push(seen.counters);
            outcome.in_levels += seen.in_levels;
            outcome.peak_bytes.push(seen.peak_bytes);
        }
        Ok(outcome)
    }
}

// Replicas must agree bit for bit, because they hold the same sums.
fn place(
    whole: &mut BTreeMap<String, Vec<f64>>,
    (name, shape, index, numbers): Shard,
) -> Result<(), Disagreement> {
    let count = shape.iter().product();
    let target = whole
        .entry(name.clone())
        .or_insert_with(|| vec![f64::NAN; count]);
    let mut taken = 0;
    for (start, len) in index.contiguous_runs(&shape) {
        for (old, new) in target[start..start + len]
            .iter_mut()
            .zip(&numbers[taken..taken + len])
        {
            if !old.is_nan() && *old != *new {
                return Err(Disagreement::Replicas {
                    name,
                    one: *old,
                    other: *new,
                });
            }
            *old = *new;
        }
        taken += len;
    }
    Ok(())
}
