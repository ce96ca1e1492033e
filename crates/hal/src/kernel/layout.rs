//! Kernels that move blocks of matrices, dims of tensors, and rows selected by a mask.

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

/// Copies elements at four strides into a dense tensor: a permutation of dims, or a repetition with a stride of
/// 0.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStrided {
    /// Holds element `i0 * strides[0] + .. + i3 * strides[3]` for every index within `sizes`.
    pub src: RawSlice,
    /// As many elements as the product of `sizes`, row-major; does not overlap `src`.
    pub dst: RawSlice,
    /// Sizes of the dims of `dst`, outermost first.
    pub sizes: [usize; 4],
    /// Distance in elements of `src` from one index of each dim to the next.
    pub strides: [usize; 4],
}

/// `out[r, c] = a[r, c]` where `mask[r]` is not 0, and `b[r, c]` elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectRows {
    /// rows, u32.
    pub mask: RawSlice,
    /// rows x columns, of the type of `out`; `None` means zeros.
    pub a: Option<RawSlice>,
    /// rows x columns, of the type of `out`; `None` means zeros.
    pub b: Option<RawSlice>,
    /// rows x columns; overlaps nothing.
    pub out: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

operands! {
    Copy2d { src: READ, dst: WRITE ; src_leading, dst_leading, rows, columns }
    CopyStrided { src: READ, dst: WRITE ; sizes, strides }
    SelectRows { mask: READ, a: READ, b: READ, out: WRITE ; rows, columns }
}
