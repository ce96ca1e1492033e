//! What [quantised](crate::quantised) weights stand for.

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

operands! {
    Dequantise { stored: READ, out: WRITE ; part }
}
