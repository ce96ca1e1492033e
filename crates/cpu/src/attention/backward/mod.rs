//! The backward pass; [`memory`] holds its inputs and its working memory.

mod memory;

use super::{
    BLOCK,
    blocks::pieces,
    multiply::{Left, Multiply, Right},
    pack::{padded, panels, rows, unpack},
    place::{Head, Task},
    softmax::{cap_scores_with_slopes, dot, gradients},
};
use crate::element::{Element, Real};
use crate::{lanes::Lanes, matmul::scratch::with_scratch, pool::Pool};
use hal::kernel::AttentionBackward;
use memory::{Piece, Queries, Rows, Scratch};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Computes the gradients of all heads.
///
/// # Safety
/// As [`super::backward()`], of elements of type `T`.
pub(super) unsafe fn run<T: Element<Acc: Lanes>>(args: &AttentionBackward, pool: &Pool) {
    let shape = &args.shape;
    pool.split(Task::count(shape), 1, |tasks| {
        with_scratch(Scratch::<T::Acc>::len(shape), |memory| {
            let scratch = Scratch::of(shape, memory);
            pulp::Arch::new().dispatch(Backward::<T> {
                args,
                tasks,
                scratch,
            });
        });
    });
}

/// Some of the tasks, on one thread; made only by [`run`], whose caller guarantees the slices.
struct Backward<'a, T: Element> {
    args: &'a AttentionBackward,
    tasks: Range<usize>,
    scratch: Scratch<'a, T::Acc>,
}

impl<T: Element<Acc: Lanes>> WithSimd for Backward<'_, T> {
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
            self.write_keys_and_values(task);
        }
    }
}

impl<T: Element<Acc: Lanes>> Backward<'_, T> {
    #[inline(always)]
    fn lay_out_keys_and_values(&mut self, task: Task) {
        let (args, shape, scratch) = (self.args, &self.args.shape, &mut self.scratch);
        // SAFETY: `run`'s caller guarantees both slices, which nobody writes.
        let [k, v] =
            [args.k, args.v].map(|memory| unsafe { Head::<T>::of_keys(memory, shape, task) });
        rows(&v, 0, T::Acc::ONE, scratch.keys);
        panels(scratch.keys, shape.head_size, scratch.value_panels);
        rows(&k, 0, T::Acc::ONE, scratch.keys);
        panels(scratch.keys, shape.head_size, scratch.key_panels);
        scratch.d_keys.fill(T::Acc::ZERO);
        scratch.d_values.fill(T::Acc::ZERO);
    }

    #[inline(always)]
    fn write_keys_and_values(&mut self, task: Task) {
        let (args, shape) = (self.args, &self.args.shape);
        // SAFETY: `run`'s caller guarantees both slices; no other task has this key and value head.
        let [mut d_k, mut d_v] =
            [args.d_k, args.d_v].map(|memory| unsafe { Head::<T>::of_keys(memory, shape, task) });
        unpack(self.scratch.d_keys, |_| T::Acc::ONE, &mut d_k, 0);
        unpack(self.scratch.d_values, |_| T::Acc::ONE, &mut d_v, 0);
    }

    #[inline(always)]
    fn head<S: Simd>(&mut self, simd: S, mut head: Queries<T>) {
        let (queries, len) = (
            padded(self.args.shape.queries),
            padded(self.args.shape.head_size),
        );
        let scale = T::Acc::of(self.args.shape.scale);
        for start in (0..queries).step_by(BLOCK) {
            let count = BLOCK.min(queries - start);
            let row_values = self.lay_out_queries(&head, start, count);
            let begin = head.first_keys.begin(start);
            if begin >= self.args.shape.keys {
                self.scratch.d_queries[..count * len].fill(T::Acc::ZERO);
            }
            for (rows, keys) in pieces(&self.args.shape, begin, [start, count]) {
                let is_first = keys.start == begin;
                let piece = Piece {
                    start,
                    rows,
                    keys,
                    is_first,
                };
                self.scores(simd, &piece);
                self.score_gradients(&head, &row_values, &piece);
                self.sum_gradients(simd, &piece);
            }
            unpack(
                &mut self.scratch.d_queries[..count * len],
                |_| scale,
                &mut head.d_q,
                start,
            );
        }
    }

    #[inline(always)]
    fn lay_out_queries(&mut self, head: &Queries<T>, start: usize, count: usize) -> Rows<T::Acc> {
        let (shape, scratch) = (&self.args.shape, &mut self.scratch);
        let len = padded(shape.head_size);
        rows(
            &head.q,
            start,
            T::Acc::of(shape.scale),
            &mut scratch.queries[..count * len],
        );
        rows(
            &head.d_out,
            start,
            T::Acc::ONE,
            &mut scratch.d_outs[..count * len],
        );
        let outs = &mut scratch.d_queries[..count * len];
        rows(&head.out, start, T::Acc::ONE, outs);
        let mut values = Rows {
            log_sum_exp: [T::Acc::ZERO; BLOCK],
            delta: [T::Acc::ZERO; BLOCK],
        };
        let real = count.min(shape.queries - start);
        values.log_sum_exp[..real].copy_from_slice(&head.log_sum_exp.row(0)[start..][..real]);
        for ((delta, out), d_out) in values
            .delta
            .iter_mut()
            .zip(outs.chunks_exact(len))
            .zip(scratch.d_outs.chunks_exact(len))
        {
            *delta = dot(out, d_out);
        }
        values
    }

    /// The scores of a piece, and the gradients of its weights.
    #[inline(always)]
    fn scores<S: Simd>(&mut self, simd: S, piece: &Piece) {
        let (depth, scratch) = (self.args.shape.head_size, &mut self.scratch);
        let len = padded(depth);
        let factors = [
            (
                &mut *scratch.scores,
                &*scratch.queries,
                &*scratch.key_panels,
            ),
            (
                &mut *scratch.d_scores,
                &*scratch.d_outs,
                &*scratch.value_panels,
            ),
        ];
        for (out, left, right) in factors {
            let multiply = Multiply {
                out: &mut out[piece.rows.start * BLOCK..],
                out_step: BLOCK,
                rows: piece.rows.len(),
                columns: piece.keys.len(),
                left: Left {
                    data: &left[piece.rows.start * len..],
                    row_step: len,
                    depth_step: 1,
                },
                right: Right {
                    data: &right[piece.keys.start * len..],
                    step: BLOCK,
                },
                depth,
                add: false,
            };
            multiply.run(simd);
        }
    }

    /// Turns a piece's scores into weights, and the gradients of weights into those of scores.
    #[inline(always)]
    fn score_gradients(&mut self, head: &Queries<T>, values: &Rows<T::Acc>, piece: &Piece) {
        let (shape, columns) = (&self.args.shape, piece.keys.len());
        let mut keep = [T::Acc::ONE; BLOCK];
        let mut slopes = [T::Acc::ONE; BLOCK];
        for row in piece.rows.clone() {
            let query = piece.start + row;
            let scores = &mut self.scratch.scores[row * BLOCK..][..columns];
            let d_scores = &mut self.scratch.d_scores[row * BLOCK..][..columns];
            if query >= shape.queries {
                scores.fill(T::Acc::ZERO);
                d_scores.fill(T::Acc::ZERO);
                continue;
            }
            let met = head.first_keys.met_from(piece.keys.start, query);
            let met = met.start..columns.min(met.end);
            if met.is_empty() {
                scores.fill(T::Acc::ZERO);
                d_scores.fill(T::Acc::ZERO);
                continue;
            }
            if let Some(mask) = &head.mask {
                mask.factors(query, piece.keys.start, &mut keep[..columns]);
            }
            let keep = head.mask.map(|_| &keep[..columns]);
            let cap = shape.score_cap.map(T::Acc::of);
            if let Some(cap) = cap {
                let slopes = &mut slopes[met.clone()];
                cap_scores_with_slopes(&mut scores[met.clone()], slopes, cap);
            }
            gradients(
                scores,
                d_scores,
                keep,
                met.clone(),
                values.log_sum_exp[row],
                values.delta[row],
            );
            if cap.is_some() {
                let met = d_scores[met.clone()].iter_mut().zip(&slopes[met]);
                met.for_each(|(d_score, slope)| *d_score *= *slope);
            }
        }
    }

    /// Adds a piece's contribution to the gradients of queries, keys and values.
    #[inline(always)]
    fn sum_gradients<S: Simd>(&mut self, simd: S, piece: &Piece) {
        let (len, scratch) = (padded(self.args.shape.head_size), &mut self.scratch);
        let (row, key) = (piece.rows.start, piece.keys.start);
        let d_queries = Multiply {
            out: &mut scratch.d_queries[row * len..],
            out_step: len,
            rows: piece.rows.len(),
            columns: len,
            left: Left {
                data: &scratch.d_scores[row * BLOCK..],
                row_step: BLOCK,
                depth_step: 1,
            },
            right: Right {
                data: &scratch.keys[key * len..],
                step: len,
            },
            depth: piece.keys.len(),
            add: !piece.is_first,
        };
        d_queries.run(simd);
        let factors = [
            (&mut *scratch.d_values, &*scratch.scores, &*scratch.d_outs),
            (&mut *scratch.d_keys, &*scratch.d_scores, &*scratch.queries),
        ];
        for (out, left, right) in factors {
            let multiply = Multiply {
                out: &mut out[key * len..],
                out_step: len,
                rows: piece.keys.len(),
                columns: len,
                left: Left {
                    data: &left[row * BLOCK..],
                    row_step: 1,
                    depth_step: BLOCK,
                },
                right: Right {
                    data: &right[row * len..],
                    step: len,
                },
                depth: piece.rows.len(),
                add: true,
            };
            multiply.run(simd);
        }
    }
}
