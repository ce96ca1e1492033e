//! The position of a head's rows in memory.

use hal::{RawSlice, kernel::AttentionShape};
use std::marker::PhantomData;

/// One key and value head of one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
}

impl Task {
    /// Number of tasks of a shape.
    pub(super) fn count(shape: &AttentionShape) -> usize {
        shape.sequences * shape.kv_heads
    }

    /// The task with that index.
    pub(super) fn of(shape: &AttentionShape, index: usize) -> Self {
        Task {
            sequence: index / shape.kv_heads,
            kv_head: index % shape.kv_heads,
        }
    }

    /// The query heads that read its keys and values.
    pub(super) fn heads(self, shape: &AttentionShape) -> std::ops::Range<usize> {
        let group = shape.heads / shape.kv_heads;
        self.kv_head * group..(self.kv_head + 1) * group
    }
}

/// The rows of one head of one sequence within a slice of elements `T`.
#[derive(Debug)]
pub(super) struct Head<'a, T> {
    first: *mut T,
    step: usize,
    rows: usize,
    len: usize,
    memory: PhantomData<&'a [T]>,
}

impl<'a, T> Head<'a, T> {
    /// Query head `head` of sequence `sequence`: `queries` rows of queries, outputs or their gradients.
    ///
    /// # Safety
    /// For as long as `'a`, `memory` is live, holds (sequences * queries) x (heads * head_size) elements `T`, and
    /// nobody writes these rows but through this value.
    pub(super) unsafe fn of_queries(
        memory: RawSlice,
        shape: &AttentionShape,
        sequence: usize,
        head: usize,
    ) -> Self {
        Self::cut(memory, shape, [shape.queries, shape.heads], sequence, head)
    }

    /// The key and value head of a task: `keys` rows of keys, values or their gradients.
    ///
    /// # Safety
    /// As [`of_queries`](Self::of_queries), for (sequences * keys) x (kv_heads * head_size) elements.
    pub(super) unsafe fn of_keys(memory: RawSlice, shape: &AttentionShape, task: Task) -> Self {
        let sizes = [shape.keys, shape.kv_heads];
        Self::cut(memory, shape, sizes, task.sequence, task.kv_head)
    }

    fn cut(
        memory: RawSlice,
        shape: &AttentionShape,
        [rows, heads]: [usize; 2],
        sequence: usize,
        head: usize,
    ) -> Self {
        let step = heads * shape.head_size;
        let start = sequence * rows * step + head * shape.head_size;
        let first = (memory.addr as *mut T).wrapping_add(start);
        Head {
            first,
            step,
            rows,
            len: shape.head_size,
            memory: PhantomData,
        }
    }

    /// The logarithms of sums of one head: one row of `queries` elements.
    ///
    /// # Safety
    /// As [`of_queries`](Self::of_queries), for sequences x heads x queries elements.
    pub(super) unsafe fn sums(
        memory: RawSlice,
        shape: &AttentionShape,
        sequence: usize,
        head: usize,
    ) -> Self {
        let len = shape.queries;
        let first = (memory.addr as *mut T).wrapping_add((sequence * shape.heads + head) * len);
        Head {
            first,
            step: len,
            rows: 1,
            len,
            memory: PhantomData,
        }
    }

    /// The numbers of the queries of one sequence, which are those of all its heads: one row of `queries` elements.
    ///
    /// # Safety
    /// As [`of_queries`](Self::of_queries), for sequences x queries elements.
    pub(super) unsafe fn of_sequence(
        memory: RawSlice,
        shape: &AttentionShape,
        sequence: usize,
    ) -> Self {
        let len = shape.queries;
        Head {
            first: (memory.addr as *mut T).wrapping_add(sequence * len),
            step: len,
            rows: 1,
            len,
            memory: PhantomData,
        }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A row to read.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[T] {
        assert!(row < self.rows, "row {row} of a head of {} rows", self.rows);
        // SAFETY: the caller of `of_queries` or `of_keys` guaranteed that the row exists, and that nobody else writes to it.
        unsafe { std::slice::from_raw_parts(self.first.wrapping_add(row * self.step), self.len) }
    }

    /// A row to write.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of a head of {} rows", self.rows);
        // SAFETY: as in `row`; the value is borrowed mutably for as long as the row.
        unsafe {
            std::slice::from_raw_parts_mut(self.first.wrapping_add(row * self.step), self.len)
        }
    }
}
