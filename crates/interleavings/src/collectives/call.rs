//! The work of a call: a sum or a copy over buffers of cells, in which loom detects races. A piece has one element.

use hal::{Collective, DType, RawSlice, ReduceOp};
use loom::cell::UnsafeCell;
use std::ops::Range;

/// An element with which the work panics.
pub(super) const POISON: u32 = 666;

/// A rank's buffer.
pub(super) struct Buffer(Vec<UnsafeCell<u32>>);

impl Buffer {
    /// A buffer of these elements.
    pub(super) fn new(elements: &[u32]) -> Buffer {
        Buffer(elements.iter().copied().map(UnsafeCell::new).collect())
    }

    /// The address and length of the buffer.
    pub(super) fn slice(&self) -> RawSlice {
        RawSlice {
            addr: self.0.as_ptr().addr() as u64,
            len: self.0.len(),
            dtype: DType::U32,
        }
    }

    /// The all-reduce of the buffer.
    pub(super) fn all_reduce(&self) -> Collective {
        Collective::AllReduce {
            buffer: self.slice(),
            op: ReduceOp::Sum,
        }
    }

    /// Overwrites the elements, as their owner may once the call has returned; returns what they were.
    pub(super) fn reuse(&self) -> Vec<u32> {
        let reuse = |cell: &UnsafeCell<u32>| {
            // SAFETY: loom refuses executions in which another thread may access the cell.
            cell.with_mut(|element| unsafe { element.replace(0) })
        };
        self.0.iter().map(reuse).collect()
    }
}

/// Number of elements to process, and how many of them make a piece.
pub(super) fn work(calls: &[Collective]) -> (usize, usize) {
    (calls[0].buffer().map_or(0, |buffer| buffer.len), 1)
}

/// Sums a range of the elements, or copies it from a message's sender to its receiver.
///
/// # Safety
/// The buffers are [`Buffer`]s, and live.
pub(super) unsafe fn perform(calls: &[Collective], range: Range<usize>) {
    for index in range {
        let cells = calls.iter().filter_map(Collective::buffer).map(|buffer| {
            let cells = buffer.addr as *const UnsafeCell<u32>;
            // SAFETY: the caller guarantees the buffer; the index lies within its length.
            unsafe { &*cells.add(index) }
        });
        let elements = cells.clone().map(|cell| {
            // SAFETY: loom refuses executions in which another thread may write to the cell.
            cell.with(|element| unsafe { *element })
        });
        let (addends, results) = match calls[0] {
            Collective::Send { .. } => (1, 1),
            _ => (calls.len(), 0),
        };
        let sum: u32 = elements.take(addends).sum();
        if sum >= POISON {
            // Without the hook of panics, which would print each of them.
            std::panic::resume_unwind(Box::new("poison"));
        }
        for cell in cells.skip(results) {
            // SAFETY: loom refuses executions in which another thread may access the cell.
            cell.with_mut(|element| unsafe { *element = sum });
        }
    }
}
