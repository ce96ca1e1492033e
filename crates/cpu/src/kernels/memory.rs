//! Memory on which several threads work, each on its own elements.

use crate::element::{Element, Real};
use bytemuck::Pod;
use hal::RawSlice;
use std::ops::Range;

/// Elements that a kernel converts and computes at once: complete vectors of every width, few enough for
/// registers.
pub(crate) const BLOCK: usize = 32;

/// A kernel's argument: elements at an address, without a claim that nobody else accesses them.
///
/// An output may share the memory of an input, so kernels that allow this hold no Rust reference to either.
/// They read a block, compute, and write a block.
pub(crate) struct Shared<T> {
    start: *mut T,
    len: usize,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: it is an address; `new` makes its caller responsible for all accesses.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Pod> Shared<T> {
    /// The elements of `raw`.
    ///
    /// # Safety
    /// `raw` is live host memory of elements of type `T` as long as the value or a copy of it is used, and an element
    /// that one thread writes is accessed by no other thread meanwhile.
    pub(crate) unsafe fn new(raw: RawSlice) -> Self {
        debug_assert_eq!(
            raw.dtype.bytes(),
            size_of::<T>(),
            "a bug: {raw:?} viewed as another type"
        );
        Shared {
            start: raw.addr as *mut T,
            len: raw.len,
        }
    }

    /// The elements of several arguments of one type.
    ///
    /// # Safety
    /// As for [`Shared::new`], for each of them; an output that shares the memory of an input counts as one
    /// memory.
    pub(crate) unsafe fn all<const N: usize>(arguments: [RawSlice; N]) -> [Self; N] {
        // SAFETY: passed on to the caller.
        arguments.map(|raw| unsafe { Self::new(raw) })
    }

    /// The elements of an argument that may be missing.
    ///
    /// # Safety
    /// As for [`Shared::new`].
    pub(crate) unsafe fn optional(argument: Option<RawSlice>) -> Option<Self> {
        // SAFETY: passed on to the caller.
        argument.map(|raw| unsafe { Self::new(raw) })
    }

    /// The elements of a slice, for scratch memory that threads share.
    ///
    /// # Safety
    /// As for [`Shared::new`]: the slice outlives the value and its copies.
    pub(crate) unsafe fn of(slice: &mut [T]) -> Self {
        Shared {
            start: slice.as_mut_ptr(),
            len: slice.len(),
        }
    }

    /// Number of elements.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    fn at(self, start: usize, len: usize) -> *mut T {
        if start > self.len || len > self.len - start {
            outside(start, len, self.len);
        }
        self.start.wrapping_add(start)
    }

    /// Where the element `index` would be, of any value.
    #[inline(always)]
    pub(crate) fn address(self, index: usize) -> *const T {
        self.start.wrapping_add(index)
    }

    /// The `len` elements from `start` on.
    #[inline(always)]
    pub(crate) fn sub(self, start: usize, len: usize) -> Self {
        Shared {
            start: self.at(start, len),
            len,
        }
    }

    /// The element `index`.
    #[inline(always)]
    pub(crate) fn get(self, index: usize) -> T {
        // SAFETY: `at` checks that it lies within the memory given to `new`.
        unsafe { self.at(index, 1).read() }
    }

    /// Writes the element `index`.
    #[inline(always)]
    pub(crate) fn set(self, index: usize, value: T) {
        // SAFETY: `at` checks that it lies within the memory given to `new`.
        unsafe { self.at(index, 1).write(value) }
    }

    /// The elements of `range` as a slice.
    ///
    /// # Safety
    /// Nothing writes to them while the slice is in use.
    #[inline(always)]
    pub(crate) unsafe fn part<'a>(self, range: Range<usize>) -> &'a [T] {
        match range.len() {
            0 => &[],
            // SAFETY: `at` checks that they lie within the memory given to `new`; the caller excludes writers.
            len => unsafe { std::slice::from_raw_parts(self.at(range.start, len), len) },
        }
    }

    /// The elements of `range` as a mutable slice.
    ///
    /// # Safety
    /// Nothing else reads or writes them while the slice is in use.
    #[inline(always)]
    pub(crate) unsafe fn part_mut<'a>(self, range: Range<usize>) -> &'a mut [T] {
        match range.len() {
            0 => &mut [],
            // SAFETY: `at` checks that they lie within the memory given to `new`; the caller excludes others.
            len => unsafe { std::slice::from_raw_parts_mut(self.at(range.start, len), len) },
        }
    }
}

#[cold]
#[inline(never)]
fn outside(start: usize, len: usize, held: usize) -> ! {
    panic!("a bug: elements {start}+{len} of {held}")
}

impl Shared<u8> {
    /// `len` bytes from `start` on, at most a block; the rest of the block is 0.
    #[inline(always)]
    pub(crate) fn load_bytes(self, start: usize, len: usize) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let from = self.at(start, len);
        for (i, byte) in block.iter_mut().enumerate().take(len) {
            // SAFETY: i < len, and `at` has checked that `len` bytes lie here.
            *byte = unsafe { from.add(i).read() };
        }
        block
    }

    /// Writes the first `len` of a block to the bytes from `start` on.
    #[inline(always)]
    pub(crate) fn store_bytes(self, start: usize, len: usize, block: [u8; BLOCK]) {
        let to = self.at(start, len);
        for (i, &byte) in block.iter().enumerate().take(len) {
            // SAFETY: i < len, and `at` has checked that `len` bytes lie here.
            unsafe { to.add(i).write(byte) };
        }
    }
}

impl<T: Element> Shared<T> {
    /// `len` elements from `start` on, at most a block, as accumulators of type `A`; the rest of the block is
    /// 0.
    #[inline(always)]
    pub(crate) fn load<A: Real>(self, start: usize, len: usize) -> [A; BLOCK] {
        let mut block = [A::ZERO; BLOCK];
        let from = self.at(start, len);
        for (i, value) in block.iter_mut().enumerate().take(len) {
            // SAFETY: i < len, and `at` has checked that `len` elements lie here.
            *value = A::of(unsafe { from.add(i).read() }.acc().wide());
        }
        block
    }

    /// Converts `len` elements of `source` into those from `start` on, each rounded once.
    #[inline(always)]
    pub(crate) fn convert<S: Element>(self, source: Shared<S>, start: usize, len: usize) {
        let (from, to) = (source.at(start, len), self.at(start, len));
        for i in 0..len {
            // SAFETY: i < len, and `at` has checked that `len` elements lie here.
            let value = unsafe { from.add(i).read() };
            // SAFETY: i < len, and `at` has checked that `len` elements lie here.
            unsafe { to.add(i).write(T::nearest(value.acc().wide())) };
        }
    }

    /// Writes the first `len` of a block to the elements from `start` on.
    #[inline(always)]
    pub(crate) fn store(self, start: usize, len: usize, block: [T::Acc; BLOCK]) {
        let to = self.at(start, len);
        for (i, &value) in block.iter().enumerate().take(len) {
            // SAFETY: i < len, and `at` has checked that `len` elements lie here.
            unsafe { to.add(i).write(T::from_acc(value)) };
        }
    }
}
