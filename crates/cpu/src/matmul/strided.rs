//! The position of a matrix in memory.

use hal::Matrix;

/// The first element of a matrix, and the steps between rows and between columns, in elements.
#[derive(Debug)]
pub(super) struct Strided<T> {
    pub(super) data: *mut T,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl<T> Clone for Strided<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<T> {}

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

    /// Its transpose.
    pub(super) fn transposed(self) -> Self {
        Strided {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}
