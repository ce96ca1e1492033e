//! Strided matrices, and the call into the crates `gemm-f32` and `gemm-f64`.

use crate::{element::Real, pool::Pool};
use gemm_common::Parallelism;
use hal::Matrix;

// A GEMM with fewer multiplications than this takes less time than waking another thread.
const WORTH_SHARING: usize = 1 << 20;

/// The position of a matrix: its first element, and the steps between rows and between columns, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strided<T> {
    pub(super) data: *mut T,
    pub(super) row: usize,
    pub(super) column: usize,
}

// SAFETY: an address is a plain value; its user guarantees the memory there.
unsafe impl<T: Send> Send for Strided<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Strided<T> {}

impl<T> Strided<T> {
    /// The operand that the seam's matrix describes, with transposition expressed by the steps.
    pub(super) fn of(matrix: Matrix) -> Self {
        let (row, column) = if matrix.transposed {
            (1, matrix.leading)
        } else {
            (matrix.leading, 1)
        };
        Strided {
            data: matrix.data.addr as *mut T,
            row,
            column,
        }
    }

    /// The part of this matrix from a row and a column on.
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        Strided {
            data: self
                .data
                .wrapping_add(row * self.row + column * self.column),
            ..self
        }
    }

    fn transposed(self) -> Self {
        Strided {
            data: self.data,
            row: self.column,
            column: self.row,
        }
    }
}

/// c = alpha * a b + beta * c, with a of m x k and b of k x n; `beta` 0 does not read `c`.
///
/// # Safety
/// The matrices are live, hold their shapes, and `c` overlaps neither factor and is used by nobody else.
pub(super) unsafe fn multiply<R: Real>(
    [m, n, k]: [usize; 3],
    c: Strided<R>,
    a: Strided<R>,
    b: Strided<R>,
    alpha: R,
    beta: R,
    pool: &Pool,
) {
    // The kernels prefer a result whose columns are contiguous; that of the transposed product is.
    let ([m, n, k], c, a, b) = match c.column < c.row {
        true => ([n, m, k], c.transposed(), b.transposed(), a.transposed()),
        false => ([m, n, k], c, a, b),
    };
    let step = |elements: usize| elements as isize;
    let small = m.saturating_mul(n).saturating_mul(k) < WORTH_SHARING;
    let threads = match pool.threads() {
        1 => Parallelism::None,
        _ if small => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    };
    let matmul = || {
        let (c, a, b) = (&c, &a, &b);
        // SAFETY: the caller guarantees the three matrices. The crates call the factor of the old result alpha.
        unsafe {
            R::gemm()(
                m,
                n,
                k,
                c.data,
                step(c.column),
                step(c.row),
                beta != R::ZERO,
                a.data.cast_const(),
                step(a.column),
                step(a.row),
                b.data.cast_const(),
                step(b.column),
                step(b.row),
                beta,
                alpha,
                false,
                false,
                false,
                threads,
            );
        }
    };
    if small {
        matmul()
    } else {
        pool.install(matmul)
    }
}
