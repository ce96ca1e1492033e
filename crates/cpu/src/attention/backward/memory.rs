//! The inputs of the backward pass, and the memory in which it computes.

use super::super::{
    BLOCK,
    blocks::ScratchSlices,
    dropout::Mask,
    first_keys::FirstKeys,
    pack::{padded, panels_len},
    place::Head,
};
use crate::element::Element;
use hal::kernel::{AttentionBackward, AttentionShape};
use std::ops::Range;

/// The rows of a query head.
pub(super) struct Queries<'a, T: Element> {
    pub(super) q: Head<'a, T>,
    pub(super) out: Head<'a, T>,
    pub(super) d_out: Head<'a, T>,
    pub(super) d_q: Head<'a, T>,
    pub(super) log_sum_exp: Head<'a, T::Acc>,
    pub(super) mask: Option<Mask>,
    pub(super) first_keys: FirstKeys<'a>,
}

impl<'a, T: Element> Queries<'a, T> {
    /// # Safety
    /// As [`super::super::backward()`]; nobody else uses the gradient of this head.
    pub(super) unsafe fn of(args: &'a AttentionBackward, sequence: usize, head: usize) -> Self {
        let shape = &args.shape;
        // SAFETY: the caller guarantees the slices.
        let rows = |memory| unsafe { Head::of_queries(memory, shape, sequence, head) };
        Queries {
            q: rows(args.q),
            out: rows(args.out),
            d_out: rows(args.d_out),
            d_q: rows(args.d_q),
            // SAFETY: as above.
            log_sum_exp: unsafe { Head::sums(args.log_sum_exp, shape, sequence, head) },
            mask: Mask::of(shape, sequence, head),
            // SAFETY: as above.
            first_keys: unsafe { FirstKeys::of(args.documents, shape, sequence) },
        }
    }
}

/// A thread's memory.
pub(super) struct Scratch<'a, R> {
    // The keys held of a sequence, as rows and as panels; the values as panels; and the gradients of both as rows.
    pub(super) keys: &'a mut [R],
    pub(super) key_panels: &'a mut [R],
    pub(super) value_panels: &'a mut [R],
    pub(super) d_keys: &'a mut [R],
    pub(super) d_values: &'a mut [R],
    // A block of queries, times the scale of scores, with its gradients.
    pub(super) queries: &'a mut [R],
    pub(super) d_outs: &'a mut [R],
    pub(super) d_queries: &'a mut [R],
    // BLOCK queries x BLOCK keys: scores, then weights; gradients of weights, then of scores.
    pub(super) scores: &'a mut [R],
    pub(super) d_scores: &'a mut [R],
}

impl<'a, R> Scratch<'a, R> {
    fn sizes(shape: &AttentionShape) -> [usize; 10] {
        let len = padded(shape.head_size);
        let (all, panels) = (
            padded(shape.keys) * len,
            panels_len(shape.keys, shape.head_size),
        );
        let (block, square) = (BLOCK * len, BLOCK * BLOCK);
        [
            all, panels, panels, all, all, block, block, block, square, square,
        ]
    }

    pub(super) fn len(shape: &AttentionShape) -> usize {
        Self::sizes(shape).into_iter().sum()
    }

    pub(super) fn of(shape: &AttentionShape, memory: &'a mut [R]) -> Self {
        let mut parts = ScratchSlices(memory);
        let [
            keys,
            key_panels,
            value_panels,
            d_keys,
            d_values,
            queries,
            d_outs,
            d_queries,
            scores,
            d_scores,
        ] = Self::sizes(shape).map(|len| parts.next(len));
        Scratch {
            keys,
            key_panels,
            value_panels,
            d_keys,
            d_values,
            queries,
            d_outs,
            d_queries,
            scores,
            d_scores,
        }
    }
}

/// Values needed per query for the gradients of a block's scores.
pub(super) struct Rows<R> {
    pub(super) log_sum_exp: [R; BLOCK],
    // The sum over a row of output times its gradient, which equals the sum of weight times its gradient.
    pub(super) delta: [R; BLOCK],
}

/// A piece of the pairs that meet: rows counted from `start`, and keys.
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) rows: Range<usize>,
    pub(super) keys: Range<usize>,
    // Whether its keys are the first that the block of queries meets.
    pub(super) is_first: bool,
}
