//! A GEMM in blocks, whose operands are copied to a better layout where that pays.

use super::{
    call::{Strided, multiply},
    convert::narrow,
    scratch::with_scratch,
    stage::stage,
};
use crate::{element::Element, pool::Pool};
use hal::Matrix;
use std::{any::TypeId, ops::Range};

// A staged block has at most this many rows and columns: 1 MiB of f32, which the second-level cache about holds.
const BLOCK: usize = 512;
// Not a multiple of BLOCK, so that the rows of a staged block do not map to the same sets of the cache.
const STRIDE: usize = BLOCK + 16;
// Rows of a 16-bit result that are summed in f32 before they are rounded.
const SUMMED_ROWS: usize = 2048;
// A transposed f32 factor is staged if it meets at least this many columns (for a) or rows (for b) of the other
// factor. Measured: `gemm` packs a transposed a about as fast as we stage it, but a transposed b up to ten
// times slower.
const WORTH_STAGING_A: usize = 256;
const WORTH_STAGING_B: usize = 2;

/// A factor, and whether its blocks are staged.
pub(super) struct Factor<T> {
    place: Strided<T>,
    staged: bool,
}

impl<T: Element> Factor<T> {
    /// The left factor, which meets `columns` columns of the right one.
    pub(super) fn left(matrix: Matrix, columns: usize) -> Self {
        Self::of(matrix, columns >= WORTH_STAGING_A)
    }

    /// The right factor, which meets `rows` rows of the left one.
    pub(super) fn right(matrix: Matrix, rows: usize) -> Self {
        Self::of(matrix, rows >= WORTH_STAGING_B)
    }

    fn of(matrix: Matrix, worth_staging: bool) -> Self {
        let widened = TypeId::of::<T>() != TypeId::of::<f32>();
        let staged = widened || (matrix.transposed && worth_staging);
        Factor {
            place: Strided::of(matrix),
            staged,
        }
    }

    /// Length of a block's side, if the full side has length `whole`.
    fn side(&self, whole: usize) -> usize {
        if self.staged { BLOCK } else { whole }
    }
}

/// A GEMM of factors of type `T`, summed in f32, into a result of type `C`.
pub(super) struct BlockedMatmul<T, C> {
    /// m, n, k.
    pub(super) sizes: [usize; 3],
    pub(super) a: Factor<T>,
    pub(super) b: Factor<T>,
    pub(super) c: Strided<C>,
    pub(super) alpha: f32,
    pub(super) beta: f32,
}

impl<T: Element<Acc = f32>, C: Element<Acc = f32>> BlockedMatmul<T, C> {
    /// Computes it.
    ///
    /// # Safety
    /// As [`multiply`], for elements of the stated types.
    pub(super) unsafe fn run(&self, pool: &Pool) {
        let [m, n, _] = self.sizes;
        if TypeId::of::<C>() == TypeId::of::<f32>() {
            let c = Strided {
                data: self.c.data.cast::<f32>(),
                row: self.c.row,
                column: self.c.column,
            };
            // SAFETY: `C` is f32; the caller guarantees the matrices.
            return unsafe { self.sum(c, 0..m, 0..n, self.alpha, self.beta, pool) };
        }
        for rows in cuts(m, SUMMED_ROWS) {
            for columns in cuts(n, BLOCK) {
                // SAFETY: the caller guarantees the matrices; the ranges lie within the result.
                unsafe { self.sum_and_round(rows.clone(), columns, pool) };
            }
        }
    }

    /// Computes `rows` x `columns` of the result in separate f32 memory, then rounds it into the result.
    ///
    /// # Safety
    /// As [`run`](Self::run); the ranges lie within the result.
    unsafe fn sum_and_round(&self, rows: Range<usize>, columns: Range<usize>, pool: &Pool) {
        with_scratch(rows.len() * STRIDE, |sums| {
            let place = Strided {
                data: sums.as_mut_ptr(),
                row: STRIDE,
                column: 1,
            };
            // SAFETY: `sums` holds a row of STRIDE >= columns for each of `rows`; the caller guarantees the factors.
            unsafe { self.sum(place, rows.clone(), columns.clone(), 1.0, 0.0, pool) };
            pulp::Arch::new().dispatch(|| {
                for (row, sums) in rows.zip(sums.chunks_exact_mut(STRIDE)) {
                    let start = self.c.from(row, columns.start).data;
                    // SAFETY: a row of the result, which the caller lets only us use, has `columns` elements from here.
                    let out = unsafe { std::slice::from_raw_parts_mut(start, columns.len()) };
                    self.round(&mut sums[..columns.len()], out);
                }
            });
        });
    }

    #[inline(always)]
    fn round(&self, sums: &mut [f32], out: &mut [C]) {
        sums.iter_mut().for_each(|sum| *sum *= self.alpha);
        if self.beta != 0.0 {
            sums.iter_mut()
                .zip(&*out)
                .for_each(|(sum, old)| *sum += self.beta * old.acc());
        }
        narrow(sums, out);
    }

    /// Computes `rows` x `columns` of the result into `out`, whose first element is that of the first row and
    /// column.
    ///
    /// # Safety
    /// As [`multiply`]; the ranges lie within the factors.
    unsafe fn sum(
        &self,
        out: Strided<f32>,
        rows: Range<usize>,
        columns: Range<usize>,
        alpha: f32,
        beta: f32,
        pool: &Pool,
    ) {
        let depth_side = if self.a.staged || self.b.staged {
            BLOCK
        } else {
            self.sizes[2]
        };
        for n in cuts(columns.len(), self.b.side(columns.len())) {
            for k in cuts(self.sizes[2], depth_side) {
                let beta = if k.start == 0 { beta } else { 1.0 };
                let b = self.b.place.from(k.start, columns.start + n.start);
                // SAFETY: the block lies within b, which the caller guarantees.
                let strip = |b| unsafe {
                    let a = self.a.place.from(rows.start, k.start);
                    let out = out.from(0, n.start);
                    self.strip([rows.len(), n.len(), k.len()], out, a, b, alpha, beta, pool)
                };
                // SAFETY: as above.
                unsafe { with_operand(&self.b, b, k.len(), n.len(), pool, strip) };
            }
        }
    }

    /// One strip of columns and of depth, with all its rows, for a `b` in the layout that `gemm` reads.
    ///
    /// # Safety
    /// As [`multiply`].
    #[allow(clippy::too_many_arguments, reason = "a GEMM has these")]
    unsafe fn strip(
        &self,
        [m, n, k]: [usize; 3],
        out: Strided<f32>,
        a: Strided<T>,
        b: Strided<f32>,
        alpha: f32,
        beta: f32,
        pool: &Pool,
    ) {
        for rows in cuts(m, self.a.side(m)) {
            let sizes = [rows.len(), n, k];
            let out = out.from(rows.start, 0);
            // SAFETY: the caller guarantees the matrices, of which these are parts.
            let matmul = |a| unsafe { multiply(sizes, out, a, b, alpha, beta, pool) };
            // SAFETY: as above.
            unsafe { with_operand(&self.a, a.from(rows.start, 0), rows.len(), k, pool, matmul) };
        }
    }
}

/// Runs `work` on the block of `rows` x `columns` at `place`: on a copy if the factor is staged, otherwise in
/// place.
/// # Safety
/// The block is live memory that nobody writes.
unsafe fn with_operand<T: Element<Acc = f32>>(
    factor: &Factor<T>,
    place: Strided<T>,
    rows: usize,
    columns: usize,
    pool: &Pool,
    work: impl FnOnce(Strided<f32>),
) {
    if !factor.staged {
        // Only f32 is ever used in place (`Factor::of`).
        return work(Strided {
            data: place.data.cast(),
            row: place.row,
            column: place.column,
        });
    }
    with_scratch(rows * STRIDE, |block| {
        // SAFETY: the caller guarantees the source; `block` has STRIDE >= columns elements for each row.
        unsafe { stage(place, rows, columns, block, STRIDE, pool) };
        work(Strided {
            data: block.as_mut_ptr(),
            row: STRIDE,
            column: 1,
        });
    });
}

/// Cuts `0..len` into ranges of about equal length, none longer than `most`; a `len` of 0 gives one empty
/// range.
fn cuts(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = len.div_ceil(most.max(1)).max(1);
    let part = len.div_ceil(parts).next_multiple_of(16);
    (0..parts).map(move |index| (index * part).min(len)..((index + 1) * part).min(len))
}
