//! `reduce_scatter`: the elements of part i are reduced in the order of ranks and written to rank i's `recv` alone.

use super::{
    call::{given, parts, taken},
    reduce::reduce,
    transfer::cut,
};
use hal::{Collective, Counts, RawSlice, ReduceOp};
use std::ops::Range;

/// # Safety
/// That of [`call::perform`](super::call::perform). A `recv` that is its part of `send` is read and written within the
/// same range, which belongs to this call alone.
pub(super) unsafe fn perform(
    calls: &[Collective],
    counts: &Counts,
    op: ReduceOp,
    range: Range<usize>,
) {
    for (rank, local) in parts(counts, calls.len(), range) {
        let start = counts.before(rank) + local.start;
        let sends: Vec<RawSlice> = calls
            .iter()
            .map(|call| given(call).part(start, local.len()))
            .collect();
        let recv = cut(taken(&calls[rank]), &local);
        // SAFETY: the caller guarantees all `send`s, which nobody writes, and for this range of the `recv`.
        unsafe { reduce(op, &sends, &[recv]) };
    }
}
