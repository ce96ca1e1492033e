//! `send` and `recv`: a round of two members, in which the first member's buffer is copied to the second's.

use super::{
    call::{given, taken},
    transfer::{copy, cut},
};
use hal::Collective;
use std::ops::Range;

/// # Safety
/// That of [`call::perform`](super::call::perform), with the sender's call first and the receiver's second.
pub(super) unsafe fn perform(calls: &[Collective], range: Range<usize>) {
    // SAFETY: the caller guarantees the message, which nobody writes, and for this range of where it goes.
    unsafe { copy(cut(given(&calls[0]), &range), cut(taken(&calls[1]), &range)) };
}
