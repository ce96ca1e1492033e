//! The largest element and the sum of squares of each row and column, exactly: see [`hal::kernel::factored`].
//!
//! Rows and columns are two passes, each divided among the threads by its own lines, so no two threads add to one number.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch_accumulator,
    exact_squares::{exponent, largest_in, power_of_two},
    memory::{BLOCK, Shared},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    RawSlice, Result,
    kernel::{LineLargest, LinePlace, LineSquares, factored::rounds},
};
use std::ops::Range;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn line_largest(args: &LineLargest, pool: &Pool) -> Result<()> {
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("line_largest", tensor.x.dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            let matrix = unsafe { Matrix::<A>::new(tensor.x, tensor.place) };
            // SAFETY: guaranteed by the caller, which passes f64.
            let rows = unsafe { Shared::<f64>::new(tensor.rows) };
            matrix.each_row(pool, #[inline(always)] |row, x| {
                rows.set(row, rows.get(row).max(largest_in(x).wide()));
            });
            // SAFETY: as above.
            if let Some(columns) = unsafe { Shared::<f64>::optional(tensor.columns) } {
                matrix.largest_of_columns(columns, pool);
            }
            Ok(())
        })
    })
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn line_squares(args: &LineSquares, pool: &Pool) -> Result<()> {
    args.tensors.iter().try_for_each(|tensor| {
        dispatch_accumulator!("line_squares", tensor.x.dtype, A => {
            // SAFETY: guaranteed by the caller; the type is the slice's own.
            let matrix = unsafe { Matrix::<A>::new(tensor.x, tensor.place) };
            // SAFETY: guaranteed by the caller, which passes f64.
            let rows = unsafe { Shared::<f64>::all([tensor.row_largest, tensor.row_sums]) };
            matrix.squares_of_rows(rows, rounds(tensor.row_terms), pool);
            if let (Some(largest), Some(sums)) = (tensor.column_largest, tensor.column_sums) {
                // SAFETY: as above.
                let columns = unsafe { Shared::<f64>::all([largest, sums]) };
                matrix.squares_of_columns(columns, rounds(tensor.column_terms), pool);
            }
            Ok(())
        })
    })
}

/// The n for which a line is scaled by 2^-n.
#[inline(always)]
pub(super) fn scale_of(largest: f64) -> i32 {
    exponent(largest.abs()).min(1024)
}

/// Elements and where they lie.
struct Matrix<A> {
    x: Shared<A>,
    place: LinePlace,
    rows: usize,
}

impl<A: Real> Matrix<A> {
    /// # Safety
    /// The slice is live, of this type, and nothing writes to it.
    unsafe fn new(x: RawSlice, place: LinePlace) -> Matrix<A> {
        Matrix {
            // SAFETY: guaranteed by the caller.
            x: unsafe { Shared::new(x) },
            place,
            rows: place.num_rows(x.len).unwrap_or(0),
        }
    }

    /// Runs `body(row, elements)`; all of it must be `#[inline(always)]`.
    #[inline(always)]
    fn each_row(&self, pool: &Pool, body: impl Fn(usize, Shared<A>) + Sync) {
        split(
            pool,
            self.rows,
            grain_of_rows(self.place.columns),
            #[inline(always)]
            |range| {
                for row in range {
                    let elements = self.place.of_row(row, self.x.len());
                    body(row, self.x.sub(elements.start, elements.len()));
                }
            },
        );
    }

    /// Runs `body(columns, run)` on blocks of columns, `run(visit)` of which calls `visit` with the elements of each row, as
    /// f64 with 0 for those that are not there; all of it must be `#[inline(always)]`.
    #[inline(always)]
    fn each_block_of_columns(
        &self,
        pool: &Pool,
        body: impl Fn(usize, usize, ColumnBlock<'_, A>) + Sync,
    ) {
        split(
            pool,
            self.place.columns,
            grain_of_rows(self.rows).max(BLOCK),
            #[inline(always)]
            |range| {
                blocks(
                    range,
                    #[inline(always)]
                    |start, len| {
                        let columns = start..start + len;
                        let matrix = self;
                        body(start, len, ColumnBlock { matrix, columns });
                    },
                );
            },
        );
    }

    fn largest_of_columns(&self, largest: Shared<f64>, pool: &Pool) {
        self.each_block_of_columns(
            pool,
            #[inline(always)]
            |start, len, block| {
                let mut most = largest.load::<f64>(start, len);
                let infinity = -f64::LOWEST;
                block.each_row(
                    #[inline(always)]
                    |x| {
                        for i in 0..BLOCK {
                            let size = if x[i] < 0.0 { -x[i] } else { x[i] };
                            let size = if size < infinity { size } else { infinity };
                            most[i] = Real::max(most[i], size);
                        }
                    },
                );
                largest.store(start, len, most);
            },
        );
    }

    fn squares_of_rows(&self, [largest, sums]: [Shared<f64>; 2], rounds: f64, pool: &Pool) {
        self.each_row(
            pool,
            #[inline(always)]
            |row, x| {
                let scale = power_of_two(-scale_of(largest.get(row)));
                let mut lanes = [0.0; BLOCK];
                blocks(
                    0..x.len(),
                    #[inline(always)]
                    |start, len| {
                        let x = x.load::<f64>(start, len);
                        for i in 0..BLOCK {
                            lanes[i] += square(x[i] * scale, rounds);
                        }
                    },
                );
                // Exact, in any order.
                let mut sum = sums.get(row);
                for lane in lanes {
                    sum += lane;
                }
                sums.set(row, sum);
            },
        );
    }

    fn squares_of_columns(&self, [largest, sums]: [Shared<f64>; 2], rounds: f64, pool: &Pool) {
        self.each_block_of_columns(
            pool,
            #[inline(always)]
            |start, len, block| {
                let mut scales = largest.load::<f64>(start, len);
                for scale in &mut scales {
                    *scale = power_of_two(-scale_of(*scale));
                }
                let mut added = sums.load::<f64>(start, len);
                block.each_row(
                    #[inline(always)]
                    |x| {
                        for i in 0..BLOCK {
                            added[i] += square(x[i] * scales[i], rounds);
                        }
                    },
                );
                sums.store(start, len, added);
            },
        );
    }
}

/// The square of a number below 1, as a multiple of which sums are exact.
#[inline(always)]
fn square(x: f64, rounds: f64) -> f64 {
    (x * x + rounds) - rounds
}

/// At most [`BLOCK`] columns of a matrix.
struct ColumnBlock<'a, A> {
    matrix: &'a Matrix<A>,
    columns: Range<usize>,
}

impl<A: Element> ColumnBlock<'_, A> {
    #[inline(always)]
    fn each_row(&self, mut visit: impl FnMut([f64; BLOCK])) {
        let Matrix { x, place, rows } = self.matrix;
        for row in 0..*rows {
            let held = place.of_row(row, x.len());
            let first = (place.start + held.start) % place.columns;
            let begin = self.columns.start.clamp(first, first + held.len());
            let end = self.columns.end.clamp(begin, first + held.len());
            let read = x.load::<f64>(held.start + begin - first, end - begin);
            match begin - self.columns.start.min(begin) {
                0 => visit(read),
                // The first row may begin within the block.
                skip => {
                    let mut shifted = [0.0; BLOCK];
                    for i in skip..BLOCK {
                        shifted[i] = read[i - skip];
                    }
                    visit(shifted);
                }
            }
        }
    }
}
