//! Attention where Context cuts the sequences: a rank has some of the queries, and needs the keys and values before them.
//!
//! [`gather`] brings all keys and values to every rank, and [`heads`] exchanges tokens for heads. Either computes what one
//! rank computes for each query, and equally much on every rank, because of how the sequences are cut.

mod gather;
mod heads;

use super::{AttentionOptions, DTensor};
use crate::{Context, ContextAttention, layers::spread::Spread};
use grid::Axis;
use std::ops::Range;
use tensor::{Result, ops::attention::AttentionShape};

/// Whether attention over `sequence` tokens and rotary positions work on this rank's tokens of `x`; otherwise on all. Where
/// sums are those of one rank, they need all.
pub(super) fn serves(x: &DTensor, sequence: usize) -> bool {
    let share = x.share();
    let is_cut = share.tokens && !share.runs && !x.pass().sums_by_rows();
    is_cut && matches!(x.leading(), [_, tokens] if *tokens == sequence)
}

/// The chunks of every sequence that this rank holds: their vectors, and their tokens.
pub(super) fn chunks(context: &Context, spread: &Spread) -> Vec<(Range<usize>, Range<usize>)> {
    let (rows, mut start) = (spread.leading()[0], 0);
    let of = |tokens: Range<usize>| {
        let held = start..start + rows * tokens.len();
        start = held.end;
        (held, tokens)
    };
    let own = context.index(Axis::Context);
    spread.chunks(context, own).into_iter().map(of).collect()
}

/// Attention in the way that the settings choose; `shape` is that of complete sequences.
///
/// # Errors
/// As [`attention`](fn@super::attention).
pub(super) fn attention(
    options: &AttentionOptions,
    shape: AttentionShape,
    inputs: [&DTensor; 3],
) -> Result<DTensor> {
    let [q, ..] = inputs;
    let var = match q.context().settings().context_attention {
        ContextAttention::Gather => gather::attention(shape, inputs)?,
        ContextAttention::Heads => heads::attention(&options.name, shape, inputs)?,
    };
    let place = (q.features(), Some(Axis::X));
    DTensor::spread_over(q.pass(), var, place, q.spread().cloned())
}
