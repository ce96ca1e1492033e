//! `all_gather`: rank i's `send` is copied to part i of every rank's `recv`.

use super::{
    call::{given, parts, taken},
    transfer::{copy, cut},
};
use hal::{Collective, Counts};
use std::ops::Range;

/// # Safety
/// That of [`call::perform`](super::call::perform). A `send` that is its part of `recv` is not written.
pub(super) unsafe fn perform(calls: &[Collective], counts: &Counts, range: Range<usize>) {
    for (rank, local) in parts(counts, calls.len(), range) {
        let send = cut(given(&calls[rank]), &local);
        let start = counts.before(rank) + local.start;
        for call in calls {
            // SAFETY: the caller guarantees the `send`, which nobody writes, and for this range of every `recv`.
            unsafe { copy(send, taken(call).part(start, local.len())) };
        }
    }
}
