//! The choice of the next token from the logits.

use crate::{Error, Result};
use hal::random::Key;
use serde::{Deserialize, Serialize};
use std::{cmp::Ordering, collections::HashSet};

/// The largest temperature and repetition penalty; beyond, every token is equally likely.
const MOST: f64 = 100.0;
/// The number of candidates that are sorted first in the search for those of `top_p`.
const SORTED_FIRST: usize = 64;

/// How a token is chosen.
///
/// The repetition penalty changes the logits, and the temperature divides them. Of the tokens, only those that pass top-k,
/// top-p and min-p are candidates, of which one is drawn by its probability. A token is dropped before its probability is
/// computed again, so each of the filters sees the distribution of the temperature, restricted by top-k.
///
/// # Source
/// Top-p: Holtzman et al., arXiv:1904.09751. Min-p: Nguyen et al., arXiv:2407.01082. The penalty: Keskar et al.,
/// arXiv:1909.05858, for logits of either sign, as other programs have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Values above 1 flatten the distribution over tokens, values below 1 sharpen it; 0 takes the most likely token, and of
    /// several the first.
    pub temperature: f64,
    /// Only the `top_k` most likely tokens are considered; 0 considers all.
    pub top_k: usize,
    /// Only the most likely tokens are considered whose probabilities reach `top_p` in sum; 1 considers all.
    pub top_p: f64,
    /// Only tokens are considered that are at least `min_p` times as likely as the most likely one; 0 considers all.
    pub min_p: f64,
    /// Of tokens that are in the sequence already, positive logits are divided by this and negative ones multiplied; 1 changes
    /// none.
    pub repetition_penalty: f64,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.8,
            top_k: 40,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 1,
        }
    }
}

impl Sampling {
    /// Always the most likely token.
    pub fn greedy() -> Sampling {
        Sampling {
            temperature: 0.0,
            ..Sampling::default()
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first number that cannot be.
    pub fn check(&self) -> Result<()> {
        let Sampling {
            temperature,
            top_p,
            min_p,
            repetition_penalty,
            ..
        } = *self;
        let most = format!("a number from 0 to {MOST}");
        let above = format!("a number above 0, and at most {MOST}");
        let checks = [
            (
                "temperature",
                temperature,
                (0.0..=MOST).contains(&temperature),
                &*most,
            ),
            (
                "top_p",
                top_p,
                top_p > 0.0 && top_p <= 1.0,
                "a number above 0, and at most 1",
            ),
            (
                "min_p",
                min_p,
                (0.0..=1.0).contains(&min_p),
                "a number from 0 to 1",
            ),
            (
                "repetition_penalty",
                repetition_penalty,
                repetition_penalty > 0.0 && repetition_penalty <= MOST,
                &*above,
            ),
        ];
        let bad = checks.into_iter().find(|(.., fits, _)| !fits);
        bad.map_or(Ok(()), |(key, found, _, needed)| {
            Err(Error::setting(key, found, needed))
        })
    }
}

/// The choices of one sequence.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    sampling: Sampling,
    // The tokens of the sequence, if they are penalised.
    seen: HashSet<u32>,
    draws: u64,
}

impl Sampler {
    /// For a sequence that begins with `prompt`.
    pub(super) fn new(sampling: Sampling, prompt: &[u32]) -> Sampler {
        let penalises = sampling.repetition_penalty != 1.0;
        let seen = prompt.iter().copied().filter(|_| penalises).collect();
        Sampler {
            sampling,
            seen,
            draws: 0,
        }
    }

    /// The next token, from the logits of all.
    pub(super) fn choose(&self, logits: &[f64]) -> u32 {
        let penalised;
        let logits = match self.seen.is_empty() {
            true => logits,
            false => {
                penalised = self.penalised(logits);
                &penalised
            }
        };
        if self.sampling.temperature == 0.0 {
            return likeliest(logits, 1)[0];
        }
        let candidates = self.candidates(logits);
        let sum: f64 = candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = uniform(self.sampling.seed, self.draws) * sum;
        for (id, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return *id;
            }
        }
        candidates[candidates.len() - 1].0
    }

    /// The sequence continues with this token.
    pub(super) fn note(&mut self, token: u32) {
        self.draws += 1;
        if self.sampling.repetition_penalty != 1.0 {
            self.seen.insert(token);
        }
    }

    fn penalised(&self, logits: &[f64]) -> Vec<f64> {
        let penalty = self.sampling.repetition_penalty;
        let mut changed = logits.to_vec();
        for id in &self.seen {
            if let Some(logit) = changed.get_mut(*id as usize) {
                *logit = if *logit > 0.0 {
                    *logit / penalty
                } else {
                    *logit * penalty
                };
            }
        }
        changed
    }

    // The tokens that may be drawn, with their weights: the most likely one has the weight 1.
    fn candidates(&self, logits: &[f64]) -> Vec<(u32, f64)> {
        let Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            ..
        } = self.sampling;
        let ids = match top_k {
            0 => (0..logits.len() as u32).collect(),
            _ => likeliest(logits, top_k),
        };
        let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weight = |id: u32| ((logits[id as usize] - best) / temperature).exp();
        let mut candidates: Vec<(u32, f64)> = ids.into_iter().map(|id| (id, weight(id))).collect();
        let enough = top_p * candidates.iter().map(|(_, weight)| weight).sum::<f64>();
        candidates.retain(|(_, weight)| *weight >= min_p);
        if top_p < 1.0 {
            keep_until(&mut candidates, enough);
        }
        candidates
    }
}

/// Keeps the most likely candidates whose weights reach `enough` in sum, the most likely first.
fn keep_until(candidates: &mut Vec<(u32, f64)>, enough: f64) {
    let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let (mut sorted, mut sum) = (0, 0.0);
    while sorted < candidates.len() {
        let end = (2 * sorted).max(SORTED_FIRST).min(candidates.len());
        let rest = &mut candidates[sorted..];
        if sorted + rest.len() > end {
            rest.select_nth_unstable_by(end - sorted - 1, order);
        }
        rest[..end - sorted].sort_unstable_by(order);
        for index in sorted..end {
            sum += candidates[index].1;
            if sum >= enough {
                return candidates.truncate(index + 1);
            }
        }
        sorted = end;
    }
}

/// The `count` tokens with the largest logits, the largest first, and of equal ones the first.
fn likeliest(logits: &[f64], count: usize) -> Vec<u32> {
    let order = |a: &u32, b: &u32| -> Ordering {
        let [one, other] = [a, b].map(|id| logits[*id as usize]);
        other.total_cmp(&one).then(a.cmp(b))
    };
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    if count == 1 {
        return ids.into_iter().min_by(order).into_iter().collect();
    }
    if count < ids.len() {
        ids.select_nth_unstable_by(count - 1, order);
        ids.truncate(count);
    }
    ids.sort_unstable_by(order);
    ids
}

// In [0, 1), with all bits of a float.
fn uniform(seed: u64, draw: u64) -> f64 {
    let [high, low, ..] = Key::new(seed, "generate", 0).block(draw);
    let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// The logarithms of the probabilities that the model itself gives a token and the `count` most likely ones.
pub(crate) fn log_probabilities(
    logits: &[f64],
    token: u32,
    count: usize,
) -> (f64, Vec<(u32, f64)>) {
    let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - best).exp()).sum();
    let of = |id: u32| logits[id as usize] - best - sum.ln();
    let top = match count {
        0 => Vec::new(),
        _ => likeliest(logits, count)
            .into_iter()
            .map(|id| (id, of(id)))
            .collect(),
    };
    (of(token), top)
}

/// Checks that a choice can be made.
///
/// # Errors
/// [`Error::Setting`] for a logit that is not a number or infinite, and if all are those of impossible tokens.
pub(crate) fn check(logits: &[f64]) -> Result<()> {
    let bad = logits
        .iter()
        .position(|logit| logit.is_nan() || *logit == f64::INFINITY);
    let refuse =
        |found: String| Error::setting("logits", found, "finite numbers, as trained weights give");
    match bad {
        Some(id) => Err(refuse(format!("{} for token {id}", logits[id]))),
        None if logits.iter().all(|logit| *logit == f64::NEG_INFINITY) => {
            Err(refuse(format!("-inf for all {} tokens", logits.len())))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
