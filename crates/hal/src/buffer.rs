//! Memory as an address and a size.

use crate::DType;

/// A piece of a device's memory, as returned by its allocator.
///
/// A plain value: copying it copies no memory and keeps nothing alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawBuffer {
    /// Address of the first byte, in the device's address space.
    pub addr: u64,
    /// Size in bytes.
    pub bytes: usize,
}

/// A contiguous run of typed elements, as kernels, GEMMs and collectives take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawSlice {
    /// Address of the first element; aligned to the element's size.
    pub addr: u64,
    /// Number of elements.
    pub len: usize,
    /// Type of each element.
    pub dtype: DType,
}

impl RawSlice {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * self.dtype.bytes()
    }

    /// The same memory as bytes.
    pub fn buffer(&self) -> RawBuffer {
        RawBuffer {
            addr: self.addr,
            bytes: self.bytes(),
        }
    }

    /// The `len` elements from element `start` on.
    ///
    /// # Panics
    /// If they do not lie within this slice: the shell has checked them, so this is a bug of ours.
    pub fn part(&self, start: usize, len: usize) -> RawSlice {
        assert!(
            start.checked_add(len).is_some_and(|end| end <= self.len),
            "part {start}+{len} of a slice of {} elements",
            self.len
        );
        RawSlice {
            addr: self.addr + (start * self.dtype.bytes()) as u64,
            len,
            dtype: self.dtype,
        }
    }

    /// Address after the last element.
    pub fn end(&self) -> u64 {
        self.addr + self.bytes() as u64
    }

    /// Whether the two share a byte.
    pub fn overlaps(&self, other: &RawSlice) -> bool {
        let holds_elements = self.len > 0 && other.len > 0;
        holds_elements && self.addr < other.end() && other.addr < self.end()
    }
}
