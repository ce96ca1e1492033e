//! Attention where Context cuts the sequences: a rank has some of the queries, and needs the keys and values before them.
//!
//! [`gather`] brings all keys and values to every rank, [`heads`] exchanges tokens for heads, and [`ring`] passes keys and
//! values from rank to rank. Each computes equally much on every rank, because of how the sequences are cut. The first two
//! compute what one rank computes for each query; a ring adds the same in another order.

mod gather;
mod heads;
mod ring;

use super::{AttentionOptions, DTensor};
use crate::{ContextAttention, layers::spread::Spread};
use grid::Axis;
use tensor::{Result, Tensor, ops::attention::AttentionShape};

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
    documents: Option<&Tensor>,
) -> Result<DTensor> {
    let [q, ..] = inputs;
    let context = q.context();
    let ranks = context.degree(Axis::Context);
    let way = context.settings().context_attention;
    let exchange = way.exchange(ranks);
    heads::check(&options.name, context, &shape, exchange)?;
    // All-to-alls have equal parts.
    let equal = shape.queries.is_multiple_of(2 * ranks);
    let vars = inputs.map(DTensor::held_var);
    let var = match way {
        ContextAttention::Heads | ContextAttention::Ring { .. } if exchange > 1 && equal => {
            heads::attention(context, (shape, spread), exchange, vars, documents)?
        }
        ContextAttention::Ring { .. } => {
            ring::attention(context, (shape, spread), 1, vars, documents)?
        }
        ContextAttention::Gather | ContextAttention::Heads => {
            gather::attention((shape, spread), inputs, documents)?
        }
    };
    let place = (q.features(), Some(Axis::X));
    DTensor::spread_over(q.pass(), var, place, spread.clone())
}
