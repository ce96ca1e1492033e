//! Bias and its gradient: operations along the columns of a matrix.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{AddBias, ColumnSum},
};
use std::ops::Range;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn add_bias(args: &AddBias, pool: &Pool) -> Result<()> {
    dispatch!("add_bias", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, bias] = unsafe { Shared::<T>::all([args.x, args.bias]) };
        add_to_rows(x, bias, args.rows, args.columns, pool);
        Ok(())
    })
}

fn add_to_rows<T: Element>(
    x: Shared<T>,
    bias: Shared<T>,
    rows: usize,
    columns: usize,
    pool: &Pool,
) {
    split(
        pool,
        rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                blocks(
                    0..columns,
                    #[inline(always)]
                    |column, len| add_block(x, row * columns + column, bias.load(column, len), len),
                );
            }
        },
    );
}

/// Adds the first `len` of `values` to the elements of `x` from `start` on.
#[inline(always)]
pub(super) fn add_block<T: Element>(
    x: Shared<T>,
    start: usize,
    values: [T::Acc; BLOCK],
    len: usize,
) {
    let mut sums = x.load::<T::Acc>(start, len);
    for i in 0..BLOCK {
        sums[i] += values[i];
    }
    x.store(start, len, sums);
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn column_sum(args: &ColumnSum, pool: &Pool) -> Result<()> {
    dispatch!("column_sum", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<T>::new(args.x) };
        let partials = column_sums(x, args.rows, args.columns, pool);
        if args.out.dtype == args.x.dtype {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            partials.add_to(unsafe { Shared::<T>::new(args.out) }, args.beta, 0, pool);
        } else {
            // SAFETY: guaranteed by the caller, whose other choice is the accumulator.
            partials.add_to(unsafe { Shared::<<T as Element>::Acc>::new(args.out) }, args.beta, 0, pool);
        }
        Ok(())
    })
}

fn column_sums<T: Element>(
    x: Shared<T>,
    rows: usize,
    columns: usize,
    pool: &Pool,
) -> Partials<T::Acc> {
    let mut partials = Partials::new(rows, columns, 1);
    partials.compute(
        pool,
        #[inline(always)]
        |rows, sums| {
            for row in rows {
                blocks(
                    0..columns,
                    #[inline(always)]
                    |column, len| add_block(sums, column, x.load(row * columns + column, len), len),
                );
            }
        },
    );
    partials
}

/// Sums over the rows of a matrix, first within parts of fixed size, then over the parts in order.
///
/// The parts depend only on the number of rows, so threads share the work without changing a bit of the result.
/// Long sums in f32 also lose less precision than in a single chain.
pub(super) struct Partials<A> {
    values: Vec<A>,
    rows: usize,
    rows_of_part: usize,
    columns: usize,
    sums: usize,
}

impl<A: Real> Partials<A> {
    /// Zeros for `sums` sums over `rows` rows of each of `columns` columns.
    pub(super) fn new(rows: usize, columns: usize, sums: usize) -> Self {
        let rows_of_part = rows.div_ceil(64).max(64);
        let parts = rows.div_ceil(rows_of_part);
        Partials {
            values: vec![A::ZERO; parts * columns * sums],
            rows,
            rows_of_part,
            columns,
            sums,
        }
    }

    /// Makes `body(rows, sums)` add the rows of every part to that part's sums (`sums` runs of `columns`
    /// elements).
    #[inline(always)]
    pub(super) fn compute(&mut self, pool: &Pool, body: impl Fn(Range<usize>, Shared<A>) + Sync) {
        let (rows, rows_of_part, width) = (self.rows, self.rows_of_part, self.columns * self.sums);
        // SAFETY: `self` outlives the loop, whose threads write the sums of different parts.
        let values = unsafe { Shared::of(&mut self.values) };
        let grain = grain_of_rows(rows_of_part * self.columns);
        split(
            pool,
            rows.div_ceil(rows_of_part),
            grain,
            #[inline(always)]
            |parts| {
                for part in parts {
                    let first = part * rows_of_part;
                    body(
                        first..rows.min(first + rows_of_part),
                        values.sub(part * width, width),
                    );
                }
            },
        );
    }

    /// Adds sum number `which` of every column to `beta * out`; a `beta` of 0 does not read it.
    pub(super) fn add_to<T: Element<Acc = A>>(
        mut self,
        out: Shared<T>,
        beta: f64,
        which: usize,
        pool: &Pool,
    ) -> Self {
        let (parts, columns, sums) = (
            self.rows.div_ceil(self.rows_of_part),
            self.columns,
            self.sums,
        );
        let beta = A::of(beta);
        // SAFETY: `self` outlives the loop, whose threads only read.
        let values = unsafe { Shared::of(&mut self.values) };
        split(
            pool,
            columns.div_ceil(BLOCK),
            grain_of_rows(parts * BLOCK),
            #[inline(always)]
            |range| {
                blocks(
                    range.start * BLOCK..columns.min(range.end * BLOCK),
                    #[inline(always)]
                    |column, len| {
                        let mut total = [A::ZERO; BLOCK];
                        for part in 0..parts {
                            let sum =
                                values.load::<A>((part * sums + which) * columns + column, len);
                            for i in 0..BLOCK {
                                total[i] += sum[i];
                            }
                        }
                        if beta != A::ZERO {
                            let held = out.load::<A>(column, len);
                            for i in 0..BLOCK {
                                total[i] += beta * held[i];
                            }
                        }
                        out.store(column, len, total);
                    },
                )
            },
        );
        self
    }
}
