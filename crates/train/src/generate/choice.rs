//! A chosen token, on which all ranks agree because one of them has chosen it.

use super::{
    relay::relay,
    sampling::{self, Sampler},
    sequence::Sequence,
};
use crate::Result;
use grid::{Axis, Coordinates};
use parallel::Context;
use serde::{Deserialize, Serialize};

/// The next token of a sequence, with what was asked for of its probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Choice {
    pub(super) token: u32,
    pub(super) log_probability: Option<f64>,
    pub(super) likeliest: Vec<(u32, f64)>,
}

impl Choice {
    fn of(sampler: &Sampler, log_probabilities: Option<usize>, logits: &[f64]) -> Result<Choice> {
        sampling::check(logits)?;
        let token = sampler.choose(logits);
        let asked =
            log_probabilities.map(|count| sampling::log_probabilities(logits, token, count));
        let (log_probability, likeliest) = match asked {
            None => (None, Vec::new()),
            Some((own, likeliest)) => (Some(own), likeliest),
        };
        Ok(Choice {
            token,
            log_probability,
            likeliest,
        })
    }
}

/// The first rank of the last stage, which has logits; it chooses for all.
pub(crate) fn chooser(context: &Context) -> usize {
    let last = context.degree(Axis::Pipeline) - 1;
    let first = Coordinates::default().with(Axis::Pipeline, last);
    context.mapping().rank_at(context.grid().rank(&first))
}

/// The next tokens of these sequences, the same on every rank. `logits` are those of each, on the rank that chooses. Collective.
///
/// # Errors
/// Those of [`sampling::check`], on the rank that chooses; those of the exchange.
pub(super) fn choose<'a>(
    context: &Context,
    sequences: impl Iterator<Item = &'a Sequence>,
    logits: &[Vec<f64>],
) -> Result<Vec<Choice>> {
    let choices = || {
        let pairs = sequences.zip(logits);
        let own = pairs.map(|(sequence, logits)| {
            Choice::of(
                &sequence.sampler,
                sequence.request.log_probabilities,
                logits,
            )
        });
        own.collect()
    };
    relay(context.world(), chooser(context), choices)
}
