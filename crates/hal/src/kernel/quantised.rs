//! What [quantised](crate::quantised) weights stand for, and products with it.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
    quantised::QuantisedPart,
};

/// `out[i] = share of i's code * scale of its block`, a product of f32 that is then rounded to the type of `out`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dequantise {
    /// The stored weights, u8, aligned to [`ALIGNMENT`](crate::quantised::ALIGNMENT) bytes.
    pub stored: RawSlice,
    /// Any float type; rows x columns of the part.
    pub out: RawSlice,
    /// Which part of a matrix they are.
    pub part: QuantisedPart,
}

/// `out = a W`, where W is what [`Dequantise`] gives for the stored weights in the type of `a`: at most
/// [`MOST_ROWS`](crate::quantised::MOST_ROWS) rows, whose product takes less time than writing W and reading it again.
///
/// Sums over the part's rows are held in the accumulator. On a device with
/// [`canonical_sums`](crate::Capabilities::canonical_sums) they have the order of a [`Gemm`](crate::Gemm) with this `leaf`.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisedMatmul {
    /// The left factor, of any float type: rows x the part's rows.
    pub a: RawSlice,
    /// The stored weights, u8, aligned to [`ALIGNMENT`](crate::quantised::ALIGNMENT) bytes.
    pub stored: RawSlice,
    /// Rows x the part's columns, of the type of `a` or its accumulator.
    pub out: RawSlice,
    /// Which part of a matrix the weights are.
    pub part: QuantisedPart,
    /// Rows of `a` and `out`.
    pub rows: usize,
    /// Terms of a leaf of the sums.
    pub leaf: usize,
}

operands! {
    Dequantise { stored: READ, out: WRITE ; part }
    QuantisedMatmul { a: READ, stored: READ, out: WRITE ; part, rows, leaf }
}
