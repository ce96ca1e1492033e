//! Moving blocks of matrices.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
};

/// Copies a rows x columns block between two row-major matrices of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy2d {
    /// From the block's first element to the end of its last row, at least.
    pub src: RawSlice,
    /// Elements from one row of `src` to the next.
    pub src_leading: usize,
    /// From the block's first element to the end of its last row, at least; does not overlap `src`.
    pub dst: RawSlice,
    /// Elements from one row of `dst` to the next.
    pub dst_leading: usize,
    /// Rows of the block.
    pub rows: usize,
    /// Columns of the block.
    pub columns: usize,
}

operands! {
    Copy2d { src: READ, dst: WRITE ; src_leading, dst_leading, rows, columns }
}
