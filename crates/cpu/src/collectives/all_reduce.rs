//! `all_reduce`: the elements of a range are reduced once, in the order of ranks, and written to every rank's buffer.

use super::{call::given, reduce::reduce, transfer::cut};
use hal::{Collective, RawSlice, ReduceOp};
use std::ops::Range;

/// # Safety
/// That of [`call::perform`](super::call::perform); the range of every buffer belongs to this call alone.
pub(super) unsafe fn perform(calls: &[Collective], op: ReduceOp, range: Range<usize>) {
    let buffers: Vec<RawSlice> = calls.iter().map(|call| cut(given(call), &range)).collect();
    // SAFETY: the caller guarantees that these ranges are live and touched by nobody else.
    unsafe { reduce(op, &buffers, &buffers) };
}
