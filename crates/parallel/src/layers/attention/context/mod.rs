//! Attention where Context cuts the sequences: a rank has some of the queries, and needs the keys and values before them.
//!
//! [`gather`] brings all keys and values to every rank, and [`heads`] exchanges tokens for heads. Either computes what one
//! rank computes for each query, and equally much on every rank, because of how the sequences are cut.

mod gather;
mod heads;

use super::{AttentionOptions, DTensor};
use crate::{ContextAttention, layers::spread::Spread};
use grid::Axis;
use tensor::{Result, ops::attention::AttentionShape};

/// How Context cuts the sequences of `x`, if attention over `tokens` tokens and rotary positions work on this rank's tokens;
/// `None` if they need all, as where sums are those of one rank.
pub(super) fn cut(x: &DTensor, tokens: usize) -> Option<&Spread> {
    let is_sequence = matches!(x.leading(), [_, found] if *found == tokens);
    let (share, by_rows) = (x.share(), x.pass().sums_by_rows());
    let serves = is_sequence && share.tokens && !share.runs && !by_rows;
    x.spread().filter(|_| serves)
}

/// Attention of queries whose sequences are cut, in the way that the settings choose; `shape` is that of complete sequences.
///
/// # Errors
/// As [`attention`](fn@super::attention).
pub(super) fn attention(
    options: &AttentionOptions,
    (shape, spread): (AttentionShape, &Spread),
    inputs: [&DTensor; 3],
) -> Result<DTensor> {
    let [q, ..] = inputs;
    let var = match q.context().settings().context_attention {
        ContextAttention::Gather => gather::attention((shape, spread), inputs)?,
        ContextAttention::Heads => heads::attention(&options.name, (shape, spread), inputs)?,
    };
    let place = (q.features(), Some(Axis::X));
    DTensor::spread_over(q.pass(), var, place, spread.clone())
}
