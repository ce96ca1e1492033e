//! The elementwise kernels of updates that orthogonalise a matrix; GEMMs do the rest.

use super::optimiser::operands_of_tensors;
use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// One tensor of a [`Momentum`] step; both slices are equally long.
#[derive(Clone, Debug, PartialEq)]
pub struct MomentumTensor {
    /// Gradients, f32 or f64; replaced by the direction of the update.
    pub gradients: RawSlice,
    /// Momentum, of the type of the gradients; updated.
    pub momentum: RawSlice,
}

/// Nesterov momentum over many tensors: g = factor * gradient; m = g + beta (m - g); gradient = g + beta (m - g).
#[derive(Clone, Debug, PartialEq)]
pub struct Momentum {
    /// The tensors.
    pub tensors: Vec<MomentumTensor>,
    /// `factor`, from [`ClipScale`](super::ClipScale): f64; if it is NaN, nothing is updated.
    pub factor: RawSlice,
    /// Decay of the momentum.
    pub beta: f64,
}

/// `out = x / (sqrt(sum_squares) + epsilon)`: what has that sum of squares gets a norm of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitNorm {
    /// f32 or f64: the accumulator of the result's type.
    pub x: RawSlice,
    /// One element, f64.
    pub sum_squares: RawSlice,
    /// As long as `x`.
    pub out: RawSlice,
    /// Added to the norm, so that zeros stay zeros.
    pub epsilon: f64,
}

operands! {
    MomentumTensor { gradients: UPDATE, momentum: UPDATE }
    UnitNorm { x: READ, sum_squares: READ, out: WRITE ; epsilon }
}

operands_of_tensors! { Momentum }
