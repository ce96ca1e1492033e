//! The forward pass.

use super::{
    BLOCK, GROUP,
    blocks::{ScratchSlices, keys_end, pieces},
    dropout::Mask,
    first_keys::FirstKeys,
    multiply::{Left, Multiply, Right},
    pack::{padded, panels, panels_len, rows, unpack},
    place::{Head, Task},
    softmax,
};
use crate::element::{Element, Real};
use crate::{lanes::Lanes, matmul::scratch::with_scratch, pool::Pool};
use hal::kernel::{AttentionForward, AttentionShape};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Computes all heads.
///
/// # Safety
/// As [`super::forward()`], of elements of type `T`.
pub(super) unsafe fn run<T: Element<Acc: Lanes>>(args: &AttentionForward, pool: &Pool) {
    let shape = &args.shape;
    pool.split(Task::count(shape), 1, |tasks| {
        with_scratch(Scratch::<T::Acc>::len(shape), |memory| {
            let scratch = Scratch::of(shape, memory);
            pulp::Arch::new().dispatch(Forward::<T> {
                args,
                tasks,
                scratch,
            });
        });
    });
}

/// The rows of a query head.
struct Queries<'a, T: Element> {
    q: Head<'a, T>,
    out: Head<'a, T>,
    log_sum_exp: Head<'a, T::Acc>,
    mask: Option<Mask>,
    first_keys: FirstKeys<'a>,
}

impl<'a, T: Element> Queries<'a, T> {
    /// # Safety
    /// As [`super::forward()`]; nobody else uses the outputs of this head.
    unsafe fn of(args: &'a AttentionForward, sequence: usize, head: usize) -> Self {
        let shape = &args.shape;
        // SAFETY: the caller guarantees the slices.
        let rows = |memory| unsafe { Head::of_queries(memory, shape, sequence, head) };
        Queries {
            q: rows(args.q),
            out: rows(args.out),
            // SAFETY: as above.
            log_sum_exp: unsafe { Head::sums(args.log_sum_exp, shape, sequence, head) },
            mask: Mask::of(shape, sequence, head),
            // SAFETY: as above.
            first_keys: unsafe { FirstKeys::of(args.documents, shape, sequence) },
        }
    }
}

/// A thread's memory.
struct Scratch<'a, R> {
    // The keys held of a sequence as panels, and the values as rows.
    keys: &'a mut [R],
    values: &'a mut [R],
    // A block of queries (and, before that, of keys), its scores on all keys, and its outputs.
    queries: &'a mut [R],
    scores: &'a mut [R],
    outs: &'a mut [R],
    // Factors of dropout for a row.
    keep: &'a mut [R],
}

impl<'a, R> Scratch<'a, R> {
    fn sizes(shape: &AttentionShape) -> [usize; 6] {
        let (keys, len) = (padded(shape.keys), padded(shape.head_size));
        [
            panels_len(shape.keys, shape.head_size),
            keys * len,
            BLOCK * len,
            BLOCK * score_step(shape),
            BLOCK * len,
            keys,
        ]
    }

    fn len(shape: &AttentionShape) -> usize {
        Self::sizes(shape).into_iter().sum()
    }

    fn of(shape: &AttentionShape, memory: &'a mut [R]) -> Self {
        let mut parts = ScratchSlices(memory);
        let [keys, values, queries, scores, outs, keep] =
            Self::sizes(shape).map(|len| parts.next(len));
        Scratch {
            keys,
            values,
            queries,
            scores,
            outs,
            keep,
        }
    }
}

/// Elements from one row of scores to the next: not a power of two, so that rows map to different sets of a
/// cache.
fn score_step(shape: &AttentionShape) -> usize {
    padded(shape.keys) + GROUP
}

/// Some of the tasks, on one thread; made only by [`run`], whose caller guarantees the slices.
struct Forward<'a, T: Element> {
    args: &'a AttentionForward,
    tasks: Range<usize>,
    scratch: Scratch<'a, T::Acc>,
}

impl<T: Element<Acc: Lanes>> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for index in self.tasks.clone() {
            let task = Task::of(&self.args.shape, index);
            self.lay_out_keys_and_values(task);
            for head in task.heads(&self.args.shape) {
                // SAFETY: `run`'s caller guarantees the slices; no other task has this query head.
                let queries = unsafe { Queries::<T>::of(self.args, task.sequence, head) };
                self.head(simd, queries);
            }
        }
    }
}

impl<T: Element<Acc: Lanes>> Forward<'_, T> {
    #[inline(always)]
    fn lay_out_keys_and_values(&mut self, task: Task) {
        let (args, shape) = (self.args, &self.args.shape);
        // SAFETY: `run`'s caller guarantees both slices, which nobody writes.
        let [k, v] =
            [args.k, args.v].map(|memory| unsafe { Head::<T>::of_keys(memory, shape, task) });
        let (keys, len) = (padded(shape.keys), padded(shape.head_size));
        for start in (0..keys).step_by(BLOCK) {
            let block = &mut self.scratch.queries[..BLOCK.min(keys - start) * len];
            rows(&k, start, T::Acc::ONE, block);
            panels(
                block,
                shape.head_size,
                &mut self.scratch.keys[start * len..],
            );
        }
        rows(&v, 0, T::Acc::ONE, self.scratch.values);
    }

    #[inline(always)]
    fn head<S: Simd>(&mut self, simd: S, mut head: Queries<T>) {
        let (queries, len) = (
            padded(self.args.shape.queries),
            padded(self.args.shape.head_size),
        );
        for start in (0..queries).step_by(BLOCK) {
            let count = BLOCK.min(queries - start);
            let scale = T::Acc::of(self.args.shape.scale);
            rows(
                &head.q,
                start,
                scale,
                &mut self.scratch.queries[..count * len],
            );
            let begin = head.first_keys.begin(start);
            // Rows that fill up a group are not computed: a call for one query would spend most of its time on them.
            let held = count.min(self.args.shape.queries - start);
            self.scores(simd, begin, [start, count], held);
            let mut sums = [T::Acc::ONE; BLOCK];
            for (row, sum) in sums[..held].iter_mut().enumerate() {
                *sum = self.weights(&mut head, begin, [start, row]);
            }
            self.outs(simd, begin, [start, count], held);
            unpack(
                &mut self.scratch.outs[..count * len],
                |row| T::Acc::ONE / sums[row],
                &mut head.out,
                start,
            );
        }
    }

    /// The scores of the block of `count` queries from `start` on, of which `held` exist, on the keys from `begin` on.
    #[inline(always)]
    fn scores<S: Simd>(&mut self, simd: S, begin: usize, [start, count]: [usize; 2], held: usize) {
        let (len, out_step) = (
            padded(self.args.shape.head_size),
            score_step(&self.args.shape),
        );
        for (rows, keys) in pieces(&self.args.shape, begin, [start, count]) {
            let multiply = Multiply {
                out: &mut self.scratch.scores[rows.start * out_step + keys.start..],
                out_step,
                rows: held.min(rows.end).saturating_sub(rows.start),
                columns: keys.len(),
                left: Left {
                    data: &self.scratch.queries[rows.start * len..],
                    row_step: len,
                    depth_step: 1,
                },
                right: Right {
                    data: &self.scratch.keys[keys.start * len..],
                    step: BLOCK,
                },
                depth: self.args.shape.head_size,
                add: false,
            };
            multiply.run(simd);
        }
    }

    /// Turns the scores of the query in row `row` of a block from `start` on, on the keys from `begin` on, into weights;
    /// returns the sum by which they must still be divided.
    #[inline(always)]
    fn weights(&mut self, head: &mut Queries<T>, begin: usize, [start, row]: [usize; 2]) -> T::Acc {
        let (shape, query) = (&self.args.shape, start + row);
        let (end, step) = (keys_end(shape, query), score_step(shape));
        let scores = &mut self.scratch.scores[row * step..][..end];
        let scores = scores.get_mut(begin..).unwrap_or_default();
        let met = head.first_keys.met_from(begin, query);
        let Some((largest, sum)) = softmax::weights(scores, met.clone(), shape.score_cap) else {
            head.log_sum_exp.row_mut(0)[query] = T::Acc::LOWEST;
            return T::Acc::ONE;
        };
        head.log_sum_exp.row_mut(0)[query] = largest + sum.ln();
        if let Some(mask) = &head.mask {
            let keep = &mut self.scratch.keep[..met.end];
            mask.factors(query, begin, keep);
            scores
                .iter_mut()
                .zip(keep)
                .for_each(|(weight, keep)| *weight *= *keep);
        }
        sum
    }

    /// The outputs of a block of queries, from their weights on the keys from `begin` on.
    #[inline(always)]
    fn outs<S: Simd>(&mut self, simd: S, begin: usize, [start, count]: [usize; 2], held: usize) {
        let (len, row_step) = (
            padded(self.args.shape.head_size),
            score_step(&self.args.shape),
        );
        if begin >= self.args.shape.keys {
            self.scratch.outs[..count * len].fill(T::Acc::ZERO);
        }
        for (rows, keys) in pieces(&self.args.shape, begin, [start, count]) {
            let weights = &self.scratch.scores[rows.start * row_step + keys.start..];
            let multiply = Multiply {
                out: &mut self.scratch.outs[rows.start * len..],
                out_step: len,
                rows: held.min(rows.end).saturating_sub(rows.start),
                columns: len,
                left: Left {
                    data: weights,
                    row_step,
                    depth_step: 1,
                },
                right: Right {
                    data: &self.scratch.values[keys.start * len..],
                    step: len,
                },
                depth: keys.len(),
                add: keys.start > begin,
            };
            multiply.run(simd);
        }
    }
}
