//! `all_to_all`: part j of rank i's `send` is copied to part i of rank j's `recv`.

use super::{
    call::{given, parts, taken},
    transfer::{copy, cut},
};
use hal::{Collective, Counts};
use std::ops::Range;

/// The range goes through all `recv` buffers, one after another.
///
/// # Safety
/// That of [`call::perform`](super::call::perform). No `send` is written.
pub(super) unsafe fn perform(calls: &[Collective], range: Range<usize>) {
    let (size, len) = (calls.len(), given(&calls[0]).len);
    let part = len / size;
    for (to, range) in parts(&Counts::Even(len), size, range) {
        for (from, local) in parts(&Counts::Even(part), size, range) {
            let send = given(&calls[from]).part(to * part + local.start, local.len());
            let recv = cut(taken(&calls[to]).part(from * part, part), &local);
            // SAFETY: the caller guarantees the `send`, which nobody writes, and for this range of the `recv`.
            unsafe { copy(send, recv) };
        }
    }
}
