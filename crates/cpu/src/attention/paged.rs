//! The newest queries of sequences, on keys and values that lie in pages.
//!
//! A page of keys is a panel as matmuls read it, so that keys are read where they lie: a step of generation reads each once. The
//! query heads that share them are rows of one product. A query's sums have the order of [`forward`](super::forward()).

use super::{
    BLOCK, GROUP,
    blocks::ScratchSlices,
    first_keys::FirstKeys,
    multiply::{Left, Multiply, Right},
    pack::padded,
    place::{Head, Task},
    softmax,
};
use crate::element::{Element, Real};
use crate::kernels::memory::Shared;
use crate::matmul::{
    convert::{narrow, widen},
    scratch::with_scratch,
};
use crate::{lanes::Lanes, pool::Pool};
use hal::kernel::{
    AttentionShape, PagedAttention, PagedShape,
    pages::{MOST_PAGED_QUERIES, PAGE_TOKENS},
};
use pulp::{Simd, WithSimd};
use std::{any::TypeId, ops::Range};

const _: () = assert!(PAGE_TOKENS == BLOCK && MOST_PAGED_QUERIES <= GROUP);

/// Computes all heads.
///
/// # Safety
/// As [`super::paged()`], of elements of type `T`.
pub(super) unsafe fn run<T: Element<Acc: Lanes>>(args: &PagedAttention, pool: &Pool) {
    let shape = &args.shape;
    let heads = shape.pages.kv_heads;
    pool.split(shape.sequences * heads, 1, |tasks| {
        with_scratch(Scratch::<T::Acc>::sizes(shape).iter().sum(), |memory| {
            // SAFETY: the caller guarantees the slices; nobody writes the pages, the table and what it says meanwhile.
            let paged = unsafe {
                Paged::<T> {
                    args,
                    keys: Shared::new(args.key_pages),
                    values: Shared::new(args.value_pages),
                    table: Shared::new(args.table),
                    held: Shared::new(args.held),
                    scratch: Scratch::of(shape, memory),
                    tasks,
                }
            };
            pulp::Arch::new().dispatch(paged);
        });
    });
}

/// A thread's memory.
struct Scratch<'a, R> {
    // Of the query heads that share keys, all queries: rows of them, of their scores on all keys, and of outputs, and by what
    // outputs are multiplied.
    queries: &'a mut [R],
    scores: &'a mut [R],
    outs: &'a mut [R],
    shares: &'a mut [R],
    // A page of a head, where its elements are not accumulators.
    page: &'a mut [R],
}

impl<'a, R> Scratch<'a, R> {
    fn sizes(shape: &PagedShape) -> [usize; 5] {
        let (rows, len) = (num_rows(shape), padded(shape.pages.head_size));
        [
            rows * len,
            rows * score_step(shape),
            rows * len,
            rows,
            PAGE_TOKENS * len,
        ]
    }

    fn of(shape: &PagedShape, memory: &'a mut [R]) -> Self {
        let mut parts = ScratchSlices(memory);
        let [queries, scores, outs, shares, page] = Self::sizes(shape).map(|len| parts.next(len));
        Scratch {
            queries,
            scores,
            outs,
            shares,
            page,
        }
    }
}

// The queries of all heads that share keys.
fn num_rows(shape: &PagedShape) -> usize {
    shape.heads / shape.pages.kv_heads * shape.queries
}

// As in the forward pass, not a power of two.
fn score_step(shape: &PagedShape) -> usize {
    shape.table_pages * PAGE_TOKENS + GROUP
}

/// Some of the tasks, on one thread; made only by [`run`], whose caller guarantees the slices.
struct Paged<'a, T: Element> {
    args: &'a PagedAttention,
    keys: Shared<T>,
    values: Shared<T>,
    table: Shared<u32>,
    held: Shared<u32>,
    scratch: Scratch<'a, T::Acc>,
    tasks: Range<usize>,
}

impl<T: Element<Acc: Lanes>> WithSimd for Paged<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let shape = &self.args.shape;
        for index in self.tasks.clone() {
            let (sequence, kv_head) = (index / shape.pages.kv_heads, index % shape.pages.kv_heads);
            let [keys, first] = [0, 1].map(|part| self.held.get(2 * sequence + part) as usize);
            let keys = keys.min(shape.table_pages * PAGE_TOKENS);
            let of_sequence = shape.of_sequence(keys, first);
            self.run(simd, &of_sequence, Task { sequence, kv_head });
        }
    }
}

impl<T: Element<Acc: Lanes>> Paged<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(&mut self, simd: S, shape: &AttentionShape, task: Task) {
        // SAFETY: `run`'s caller guarantees the slice.
        let first_keys = unsafe { FirstKeys::of(self.args.documents, shape, task.sequence) };
        // No later query meets an earlier key.
        let first = first_keys.begin(0);
        let pages = first / PAGE_TOKENS..shape.keys.div_ceil(PAGE_TOKENS);
        self.lay_out_queries(shape, task);
        for page in pages.clone() {
            self.scores(simd, shape, task, page);
        }
        let (rows, step) = (num_rows(&self.args.shape), score_step(&self.args.shape));
        for row in 0..rows {
            let scores = &mut self.scratch.scores[row * step..][first..padded(shape.keys)];
            let met = first_keys.met_from(first, row % shape.queries);
            let found = softmax::weights(scores, met, shape.score_cap);
            self.scratch.shares[row] = found.map_or(T::Acc::ONE, |(_, sum)| T::Acc::ONE / sum);
        }
        if pages.is_empty() {
            self.scratch.outs.fill(T::Acc::ZERO);
        }
        for page in pages.clone() {
            self.outs(simd, shape, task, (page, page > pages.start));
        }
        self.write(shape, task);
    }

    // The rows of the task's query heads, which are the first of those with the task's keys.
    #[inline(always)]
    fn lay_out_queries(&mut self, shape: &AttentionShape, task: Task) {
        let (len, scale) = (padded(shape.head_size), T::Acc::of(shape.scale));
        for (place, head) in task.heads(shape).enumerate() {
            // SAFETY: `run`'s caller guarantees the slice, which nobody writes.
            let q = unsafe { Head::<T>::of_queries(self.args.q, shape, task.sequence, head) };
            let to = &mut self.scratch.queries[place * shape.queries * len..];
            super::pack::rows(&q, 0, scale, &mut to[..shape.queries * len]);
        }
    }

    #[inline(always)]
    fn page_of(&self, sequence: usize, page: usize) -> usize {
        let shape = &self.args.shape;
        let page = self.table.get(sequence * shape.table_pages + page) as usize;
        page.min(shape.pages.pages - 1)
    }

    // The scores of all rows on the keys of a page.
    #[inline(always)]
    fn scores<S: Simd>(&mut self, simd: S, shape: &AttentionShape, task: Task, page: usize) {
        let (size, len) = (shape.head_size, padded(shape.head_size));
        let step = score_step(&self.args.shape);
        let panel = self.page_of(task.sequence, page) * shape.kv_heads + task.kv_head;
        let start = panel * size * PAGE_TOKENS;
        // SAFETY: nobody writes the pages meanwhile.
        let panel = unsafe { self.keys.part(start..start + size * PAGE_TOKENS) };
        let data = match accumulators(panel) {
            Some(panel) => panel,
            None => {
                let to = &mut self.scratch.page[..panel.len()];
                widen(panel, to);
                to
            }
        };
        let multiply = Multiply {
            out: &mut self.scratch.scores[page * PAGE_TOKENS..],
            out_step: step,
            rows: num_rows(&self.args.shape),
            columns: padded(shape.keys - page * PAGE_TOKENS).min(PAGE_TOKENS),
            left: Left {
                data: self.scratch.queries,
                row_step: len,
                depth_step: 1,
            },
            right: Right {
                data,
                step: PAGE_TOKENS,
            },
            depth: size,
            add: false,
        };
        multiply.run(simd);
    }

    // The outputs of all rows, as far as the values of a page make them.
    #[inline(always)]
    fn outs<S: Simd>(
        &mut self,
        simd: S,
        shape: &AttentionShape,
        task: Task,
        (page, add): (usize, bool),
    ) {
        let (size, len) = (shape.head_size, padded(shape.head_size));
        let (width, step) = (self.args.shape.pages.width(), score_step(&self.args.shape));
        // Memory behind the last value may hold anything.
        let count = (shape.keys - page * PAGE_TOKENS).min(PAGE_TOKENS);
        let start = self.page_of(task.sequence, page) * PAGE_TOKENS * width + task.kv_head * size;
        let end = start + (count - 1) * width + size;
        // SAFETY: nobody writes the pages meanwhile.
        let rows = unsafe { self.values.part(start..end) };
        let (data, right_step) = match accumulators(rows) {
            Some(rows) if size == len => (rows, width),
            _ => {
                let to = &mut self.scratch.page[..count * len];
                for (row, to) in to.chunks_exact_mut(len).enumerate() {
                    let (to, rest) = to.split_at_mut(size);
                    widen(&rows[row * width..][..size], to);
                    rest.fill(T::Acc::ZERO);
                }
                (&*to, len)
            }
        };
        let multiply = Multiply {
            out: self.scratch.outs,
            out_step: len,
            rows: num_rows(&self.args.shape),
            columns: len,
            left: Left {
                data: &self.scratch.scores[page * PAGE_TOKENS..],
                row_step: step,
                depth_step: 1,
            },
            right: Right {
                data,
                step: right_step,
            },
            depth: count,
            add,
        };
        multiply.run(simd);
    }

    #[inline(always)]
    fn write(&mut self, shape: &AttentionShape, task: Task) {
        let len = padded(shape.head_size);
        for (place, head) in task.heads(shape).enumerate() {
            // SAFETY: `run`'s caller guarantees the slice; no other task has this query head.
            let mut out =
                unsafe { Head::<T>::of_queries(self.args.out, shape, task.sequence, head) };
            for query in 0..shape.queries {
                let row = place * shape.queries + query;
                let (values, share) = (
                    &mut self.scratch.outs[row * len..][..shape.head_size],
                    self.scratch.shares[row],
                );
                values.iter_mut().for_each(|x| *x *= share);
                narrow(values, out.row_mut(query));
            }
        }
    }
}

// The elements as accumulators, if they are.
#[inline(always)]
fn accumulators<T: Element>(elements: &[T]) -> Option<&[T::Acc]> {
    (TypeId::of::<T>() == TypeId::of::<T::Acc>()).then(|| bytemuck::cast_slice(elements))
}
