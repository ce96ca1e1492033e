//! Kernels that reduce a row, and may apply the result to the row: sums and softmax.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
};

/// `out[r] = sum over c of x[r, c]`.
///
/// Where the device keeps [canonical sums](crate::Capabilities::canonical_sums), a row is added by the tree of
/// [`sums`](crate::sums) over single columns.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSum {
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// rows, of the type of `x`; overlaps nothing.
    pub out: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

/// `out[r, c] = exp(x[r, c] - l[r])` with `l[r]` the logarithm of the sum over c of `exp(x[r, c])`; or `x[r, c] - l[r]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// rows x columns, any float type.
    pub x: RawSlice,
    /// rows x columns, of the type of `x`; overlaps nothing.
    pub out: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Whether the result is the logarithm of the softmax.
    pub log: bool,
}

/// The gradient of [`Softmax`] from its result. For each row it is `out * (d_out - sum of out * d_out)`, and
/// for the logarithm `d_out - exp(out) * sum of d_out`.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxBackward {
    /// rows x columns, the result of [`Softmax`].
    pub out: RawSlice,
    /// rows x columns, of the type of `out`.
    pub d_out: RawSlice,
    /// rows x columns, of the type of `out`; may be `d_out`.
    pub d_x: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// As in [`Softmax`].
    pub log: bool,
}

operands! {
    RowSum { x: READ, out: WRITE ; rows, columns }
    Softmax { x: READ, out: WRITE ; rows, columns, log }
    SoftmaxBackward { out: READ, d_out: READ, d_x: WRITE.in_place() ; rows, columns, log }
}
