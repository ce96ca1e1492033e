//! AdamW with moments that are kept as [8-bit codes](crate::codes), each block of a row with a scale.
//!
//! A scale is the largest magnitude of the block's new moments, on all ranks that hold a part of the block. So a step has two
//! kernels: [`CodedScales`] finds the scales of what this rank holds, and [`CodedAdamW`] updates weights and codes once the
//! ranks have agreed on them.

use super::optimiser::operands_of_tensors;
use crate::{
    RawSlice,
    codes::BlockPlace,
    operand::{READ, UPDATE, WRITE, operands},
};

/// One tensor of a [`CodedScales`] step. Of each pair, the first is of the first moments.
#[derive(Clone, Debug, PartialEq)]
pub struct CodedScalesTensor {
    /// Gradients, f32 or f64.
    pub gradients: RawSlice,
    /// Codes of the moments, u8, as long as the gradients: [signed](crate::codes::Codes::Signed) ones of the first,
    /// [unsigned](crate::codes::Codes::Unsigned) ones of the second.
    pub codes: [RawSlice; 2],
    /// Their scales, one for each block of the rank's part, of the type of the gradients.
    pub scales: [RawSlice; 2],
    /// The scales of the new moments, for the blocks that the gradients touch; the others stay.
    pub next: [RawSlice; 2],
    /// Where the gradients lie in the blocks.
    pub place: BlockPlace,
}

/// The scales of the moments that a [`CodedAdamW`] step computes. If the factor is NaN, they are the old ones.
#[derive(Clone, Debug, PartialEq)]
pub struct CodedScales {
    /// The tensors.
    pub tensors: Vec<CodedScalesTensor>,
    /// As in [`AdamW`](super::AdamW).
    pub factor: RawSlice,
    /// Decay of the first moments.
    pub beta1: f64,
    /// Decay of the second moments.
    pub beta2: f64,
}

/// One tensor of a [`CodedAdamW`] step. Of each pair, the first is of the first moments.
#[derive(Clone, Debug, PartialEq)]
pub struct CodedAdamWTensor {
    /// Master weights, f32 or f64; updated.
    pub weights: RawSlice,
    /// Gradients, of the type of the weights.
    pub gradients: RawSlice,
    /// As in [`CodedScalesTensor`]; updated.
    pub codes: [RawSlice; 2],
    /// The scales of these codes.
    pub scales: [RawSlice; 2],
    /// The scales of the new codes: at least the magnitudes of the block's new moments.
    pub next: [RawSlice; 2],
    /// Copy of the weights in the compute type; written if given.
    pub compute: Option<RawSlice>,
    /// Where the elements lie in the blocks.
    pub place: BlockPlace,
    /// Decoupled weight decay of this tensor.
    pub weight_decay: f64,
}

/// [`AdamW`](super::AdamW) whose moments are the shares of the codes times their scales.
///
/// Weights follow the new moments before these become codes. A new code stands for the share nearest to the moment over its
/// scale; that of a positive second moment is never the one of 0, by whose root the next step would divide.
#[derive(Clone, Debug, PartialEq)]
pub struct CodedAdamW {
    /// The tensors.
    pub tensors: Vec<CodedAdamWTensor>,
    /// As in [`AdamW`](super::AdamW).
    pub factor: RawSlice,
    /// Learning rate.
    pub rate: f64,
    /// Decay of the first moments.
    pub beta1: f64,
    /// Decay of the second moments.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Number of this update, from 1.
    pub step: u64,
}

operands! {
    CodedScalesTensor { gradients: READ, codes: READ, scales: READ, next: UPDATE ; place }
    CodedAdamWTensor {
        weights: UPDATE, gradients: READ, codes: UPDATE, scales: READ, next: READ, compute: WRITE
        ; place, weight_decay
    }
}

operands_of_tensors! { CodedScales CodedAdamW }
