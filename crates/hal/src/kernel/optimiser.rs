//! Updates of many tensors in one launch, with norm, clipping and the check for overflow left on the device.

use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// `out[0] += sum over all slices of the squares of their elements`, in the device's own order.
///
/// Where the device keeps [canonical sums](crate::Capabilities::canonical_sums), [`Largest`], [`ExactSquares`] and
/// [`ExactTotal`] give a sum that does not depend on any order.
#[derive(Clone, Debug, PartialEq)]
pub struct SumSquares {
    /// Any float types.
    pub slices: Vec<RawSlice>,
    /// One element, f64; added to.
    pub out: RawSlice,
}

/// `out[0] = max(out[0], largest magnitude of all elements of all slices)`; infinite if an element is not finite.
///
/// Only for devices with [canonical sums](crate::Capabilities::canonical_sums).
#[derive(Clone, Debug, PartialEq)]
pub struct Largest {
    /// Any float types.
    pub slices: Vec<RawSlice>,
    /// One element, f64; updated.
    pub out: RawSlice,
}

/// Adds the squares of all elements to three sums, whose total has the same bits however the elements are distributed over
/// launches and ranks.
///
/// Sums of several launches or ranks may be added in any order: up to 2^20 launches on all ranks, and 2^40 elements. Each
/// square is rounded to a multiple of 2^-76 of a power of 2 that `largest` fixes; the sums are exact. If `largest` is not
/// finite, the sums are not finite either, as soon as all elements have been added.
///
/// Only for devices with [canonical sums](crate::Capabilities::canonical_sums).
#[derive(Clone, Debug, PartialEq)]
pub struct ExactSquares {
    /// Any float types.
    pub slices: Vec<RawSlice>,
    /// One element, f64: what [`Largest`] gives for the elements of all launches on all ranks.
    pub largest: RawSlice,
    /// Three elements, f64; added to.
    pub sums: RawSlice,
}

/// `out[0] = the sum of squares that the three sums of [`ExactSquares`] stand for`, rounded once.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactTotal {
    /// As in [`ExactSquares`].
    pub largest: RawSlice,
    /// Three elements, f64.
    pub sums: RawSlice,
    /// One element, f64.
    pub out: RawSlice,
}

/// The factor that clips gradients to a norm, from the sum of their squares.
///
/// With norm = gradient_scale * sqrt(sum_squares): `out[0] = gradient_scale * min(1, max_norm / (norm +
/// 1e-6))`, `out[1] = norm`. If the sum is not finite, `out[0]` is NaN and `out[1]` is that norm; an update
/// with this factor is skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipScale {
    /// One element, f64.
    pub sum_squares: RawSlice,
    /// Two elements, f64: factor and norm.
    pub out: RawSlice,
    /// Largest norm; `None` applies only `gradient_scale`.
    pub max_norm: Option<f64>,
    /// Factor of every gradient: 1 / loss scale.
    pub gradient_scale: f64,
}

/// One tensor of an [`AdamW`] step; all slices are equally long.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamWTensor {
    /// Master weights, f32 or f64; updated.
    pub weights: RawSlice,
    /// Gradients, of the type of the weights.
    pub gradients: RawSlice,
    /// First moments, of the type of the weights; updated.
    pub first: RawSlice,
    /// Second moments, of the type of the weights; updated.
    pub second: RawSlice,
    /// Copy of the weights in the compute type; written if given.
    pub compute: Option<RawSlice>,
    /// Decoupled weight decay of this tensor.
    pub weight_decay: f64,
}

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101) over many tensors, as PyTorch computes it.
///
/// g = factor * gradient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w = w - rate * decay * w - rate * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon).
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// The tensors.
    pub tensors: Vec<AdamWTensor>,
    /// `factor`, from [`ClipScale`]: f64; if it is NaN, nothing is updated.
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

/// One tensor of an [`Sgd`] step; all slices are equally long.
#[derive(Clone, Debug, PartialEq)]
pub struct SgdTensor {
    /// Master weights, f32 or f64; updated.
    pub weights: RawSlice,
    /// Gradients, of the type of the weights.
    pub gradients: RawSlice,
    /// Momentum, of the type of the weights; updated; `None` without momentum.
    pub velocity: Option<RawSlice>,
    /// Copy of the weights in the compute type; written if given.
    pub compute: Option<RawSlice>,
    /// Weight decay of this tensor, added to the gradient.
    pub weight_decay: f64,
}

/// Stochastic gradient descent: g = factor * gradient + decay * w; u = momentum u + g; w = w - rate * u.
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// The tensors.
    pub tensors: Vec<SgdTensor>,
    /// As in [`AdamW`].
    pub factor: RawSlice,
    /// Learning rate.
    pub rate: f64,
    /// Decay of the velocity.
    pub momentum: f64,
}

/// One tensor of a [`Lion`] step; all slices are equally long.
#[derive(Clone, Debug, PartialEq)]
pub struct LionTensor {
    /// Master weights, f32 or f64; updated.
    pub weights: RawSlice,
    /// Gradients, of the type of the weights.
    pub gradients: RawSlice,
    /// Momentum, of the type of the weights; updated.
    pub momentum: RawSlice,
    /// Copy of the weights in the compute type; written if given.
    pub compute: Option<RawSlice>,
    /// Decoupled weight decay of this tensor.
    pub weight_decay: f64,
}

/// Lion (Chen et al., arXiv:2302.06675) over many tensors.
///
/// g = factor * gradient; c = m + (1 - beta1) (g - m); m = m + (1 - beta2) (g - m);
/// w = w - rate * decay * w - rate * sign(c), where the sign of 0 is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Lion {
    /// The tensors.
    pub tensors: Vec<LionTensor>,
    /// As in [`AdamW`].
    pub factor: RawSlice,
    /// Learning rate.
    pub rate: f64,
    /// Share of the momentum in the direction of the update.
    pub beta1: f64,
    /// Decay of the momentum.
    pub beta2: f64,
}

operands! {
    SumSquares { slices: READ, out: UPDATE }
    Largest { slices: READ, out: UPDATE }
    ExactSquares { slices: READ, largest: READ, sums: UPDATE }
    ExactTotal { largest: READ, sums: READ, out: WRITE }
    ClipScale { sum_squares: READ, out: WRITE ; max_norm, gradient_scale }
    AdamWTensor {
        weights: UPDATE, gradients: READ, first: UPDATE, second: UPDATE, compute: WRITE
        ; weight_decay
    }
    SgdTensor { weights: UPDATE, gradients: READ, velocity: UPDATE, compute: WRITE ; weight_decay }
    LionTensor { weights: UPDATE, gradients: READ, momentum: UPDATE, compute: WRITE ; weight_decay }
}

/// The operands of a step over many tensors: those of each tensor, and the factor.
macro_rules! operands_of_tensors {
    ($($name:ident)*) => {
        $(impl $name {
            pub(crate) fn operands(&self, visit: &mut dyn FnMut($crate::Operand)) {
                self.tensors
                    .iter()
                    .for_each(|tensor| tensor.operands(visit));
                visit($crate::operand::READ.of(self.factor));
            }
        })*
    };
}
pub(super) use operands_of_tensors;

operands_of_tensors! { AdamW Sgd Lion }
