//! Converts the seam's addresses to Rust slices.

use bytemuck::Pod;
use hal::RawSlice;

/// The elements of `raw` as a slice.
///
/// # Safety
/// `raw` is live host memory of elements of type `T`, and nothing writes to it while the slice is in use.
pub(crate) unsafe fn read<'a, T: Pod>(raw: RawSlice) -> &'a [T] {
    debug_assert_eq!(raw.dtype.bytes(), size_of::<T>());
    if raw.len == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees address, length, type and the absence of writers; `T: Pod` takes any bits.
    unsafe { std::slice::from_raw_parts(raw.addr as *const T, raw.len) }
}

/// The elements of `raw` as a mutable slice.
///
/// # Safety
/// `raw` is live host memory of elements of type `T`, and nothing else reads or writes it while the slice is in use.
pub(crate) unsafe fn write<'a, T: Pod>(raw: RawSlice) -> &'a mut [T] {
    debug_assert_eq!(raw.dtype.bytes(), size_of::<T>());
    if raw.len == 0 {
        return &mut [];
    }
    // SAFETY: the caller guarantees address, length, type and exclusiveness; `T: Pod` takes any bits.
    unsafe { std::slice::from_raw_parts_mut(raw.addr as *mut T, raw.len) }
}
