//! Copying elements between buffers of two ranks.

use hal::RawSlice;
use std::ops::Range;

/// Copies equally many elements of one type, unless source and destination are the same.
///
/// # Safety
/// Both slices are live host memory, the same or disjoint; nobody writes `src` or accesses `dst` meanwhile.
pub(super) unsafe fn copy(src: RawSlice, dst: RawSlice) {
    assert!(
        src.len == dst.len && src.dtype == dst.dtype,
        "a bug: copy of {src:?} to {dst:?}"
    );
    if src.addr != dst.addr && src.len > 0 {
        // SAFETY: the caller guarantees both regions, and the sizes are equal (checked above).
        unsafe {
            std::ptr::copy_nonoverlapping(src.addr as *const u8, dst.addr as *mut u8, src.bytes())
        };
    }
}

/// The elements of `range`.
pub(super) fn cut(slice: RawSlice, range: &Range<usize>) -> RawSlice {
    slice.part(range.start, range.len())
}
