//! `broadcast`: the root's buffer is copied to every other.

use super::{
    call::given,
    transfer::{copy, cut},
};
use hal::Collective;
use std::ops::Range;

/// # Safety
/// That of [`call::perform`](super::call::perform). The root's buffer is not written.
pub(super) unsafe fn perform(calls: &[Collective], root: usize, range: Range<usize>) {
    let source = cut(given(&calls[root]), &range);
    for call in calls {
        // SAFETY: the caller guarantees the root's buffer, which nobody writes, and for this range of the others.
        unsafe { copy(source, cut(given(call), &range)) };
    }
}
