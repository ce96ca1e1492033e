//! Updates of many tensors at once; the norm of the gradients and its check stay on the device.

use super::{holds, launch};
use crate::{Arguments, Device, Tensor};
use hal::{DType, Error, Kernel, Result, kernel};
use std::ops::RangeInclusive;

/// Adds the squares of all elements to `out`, one f64, in the device's own order.
///
/// # Errors
/// [`Error::Invalid`] when `out` is not one f64.
pub fn sum_squares(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    holds("sum_squares", "result", out, 1, DType::F64)?;
    let mut args = Arguments::default();
    let kernel = kernel::SumSquares {
        slices: tensors.iter().map(|tensor| args.take(tensor)).collect(),
        out: args.take(out),
    };
    launch(&mut args, Kernel::SumSquares(kernel))
}

/// Raises `out`, one f64, to the largest magnitude of all elements; to infinity if an element is not finite.
///
/// # Errors
/// [`Error::Invalid`] when `out` is not one f64; [`Error::Unsupported`] on a device without canonical sums.
pub fn largest(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    holds("largest", "result", out, 1, DType::F64)?;
    let mut args = Arguments::default();
    let kernel = kernel::Largest {
        slices: tensors.iter().map(|tensor| args.take(tensor)).collect(),
        out: args.take(out),
    };
    launch(&mut args, Kernel::Largest(kernel))
}

/// Adds the squares of all elements to `sums`, three f64, exactly; see [`hal::kernel::ExactSquares`].
///
/// `largest` is what [`largest`] gives for all elements of all calls and ranks. [`exact_total`] reads the sums.
///
/// # Errors
/// [`Error::Invalid`] when `largest` is not one f64 or `sums` not three; [`Error::Unsupported`] on a device without
/// canonical sums.
pub fn exact_squares(tensors: &[&Tensor], largest: &Tensor, sums: &Tensor) -> Result<()> {
    holds("exact_squares", "largest", largest, 1, DType::F64)?;
    holds("exact_squares", "sums", sums, 3, DType::F64)?;
    let mut args = Arguments::default();
    let kernel = kernel::ExactSquares {
        slices: tensors.iter().map(|tensor| args.take(tensor)).collect(),
        largest: args.take(largest),
        sums: args.take(sums),
    };
    launch(&mut args, Kernel::ExactSquares(kernel))
}

/// The sum of squares that the sums of [`exact_squares`] stand for: one f64.
///
/// # Errors
/// As for [`exact_squares`].
pub fn exact_total(largest: &Tensor, sums: &Tensor) -> Result<Tensor> {
    holds("exact_total", "largest", largest, 1, DType::F64)?;
    holds("exact_total", "sums", sums, 3, DType::F64)?;
    let out = Tensor::empty(sums.device(), DType::F64, &[1])?;
    let mut args = Arguments::default();
    let kernel = kernel::ExactTotal {
        largest: args.take(largest),
        sums: args.take(sums),
        out: args.take(&out),
    };
    launch(&mut args, Kernel::ExactTotal(kernel))?;
    Ok(out)
}

/// The factor that clips gradients to `max_norm`, and their norm, from the sum of their squares: two f64.
///
/// The factor is NaN when the norm is not finite; an update with it is skipped.
///
/// # Errors
/// [`Error::Invalid`] when `sum_squares` is not one f64.
pub fn clip_scale(
    sum_squares: &Tensor,
    max_norm: Option<f64>,
    gradient_scale: f64,
) -> Result<Tensor> {
    holds("clip_scale", "sum of squares", sum_squares, 1, DType::F64)?;
    let out = Tensor::empty(sum_squares.device(), DType::F64, &[2])?;
    let mut args = Arguments::default();
    let kernel = kernel::ClipScale {
        sum_squares: args.take(sum_squares),
        out: args.take(&out),
        max_norm,
        gradient_scale,
    };
    launch(&mut args, Kernel::ClipScale(kernel))?;
    Ok(out)
}

/// A tensor to update, with its state; all are equally long.
#[derive(Clone, Debug)]
pub struct Update {
    /// Master weights.
    pub weights: Tensor,
    /// Gradients.
    pub gradients: Tensor,
    /// State of the optimiser: two moments for AdamW, at most one velocity for SGD, the momentum for Lion.
    pub state: Vec<Tensor>,
    /// Copy of the weights in the compute type, if it differs.
    pub compute: Option<Tensor>,
    /// Weight decay of this tensor.
    pub weight_decay: f64,
}

/// Constants of AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
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

/// One AdamW update; `factor` is what [`clip_scale`] gave.
///
/// # Errors
/// [`Error::Invalid`] for an update without two state tensors, when lengths or types do not fit, and for tensors of
/// another device.
pub fn adamw(device: &Device, updates: &[Update], factor: &Tensor, settings: AdamW) -> Result<()> {
    let mut args = checked(device, updates, factor, 2..=2)?;
    let tensors = updates.iter().map(|update| kernel::AdamWTensor {
        weights: args.take(&update.weights),
        gradients: args.take(&update.gradients),
        first: args.take(&update.state[0]),
        second: args.take(&update.state[1]),
        compute: args.take_some(update.compute.as_ref()),
        weight_decay: update.weight_decay,
    });
    let tensors = tensors.collect();
    let AdamW {
        rate,
        beta1,
        beta2,
        epsilon,
        step,
    } = settings;
    let kernel = kernel::AdamW {
        tensors,
        factor: args.take_part(factor, 0, 1),
        rate,
        beta1,
        beta2,
        epsilon,
        step,
    };
    launch(&mut args, Kernel::AdamW(kernel))
}

/// One SGD update; `factor` is what [`clip_scale`] gave.
///
/// # Errors
/// [`Error::Invalid`] for an update with more than one state tensor, when lengths or types do not fit, and for tensors
/// of another device.
pub fn sgd(
    device: &Device,
    updates: &[Update],
    factor: &Tensor,
    rate: f64,
    momentum: f64,
) -> Result<()> {
    let mut args = checked(device, updates, factor, 0..=1)?;
    let tensors = updates.iter().map(|update| kernel::SgdTensor {
        weights: args.take(&update.weights),
        gradients: args.take(&update.gradients),
        velocity: args.take_some(update.state.first()),
        compute: args.take_some(update.compute.as_ref()),
        weight_decay: update.weight_decay,
    });
    let tensors = tensors.collect();
    let kernel = kernel::Sgd {
        tensors,
        factor: args.take_part(factor, 0, 1),
        rate,
        momentum,
    };
    launch(&mut args, Kernel::Sgd(kernel))
}

/// Constants of Lion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lion {
    /// Learning rate.
    pub rate: f64,
    /// Share of the momentum in the direction of the update.
    pub beta1: f64,
    /// Decay of the momentum.
    pub beta2: f64,
}

/// One Lion update; `factor` is what [`clip_scale`] gave.
///
/// # Errors
/// [`Error::Invalid`] for an update without one state tensor, when lengths or types do not fit, and for tensors of
/// another device.
pub fn lion(device: &Device, updates: &[Update], factor: &Tensor, settings: Lion) -> Result<()> {
    let mut args = checked(device, updates, factor, 1..=1)?;
    let tensors = updates.iter().map(|update| kernel::LionTensor {
        weights: args.take(&update.weights),
        gradients: args.take(&update.gradients),
        momentum: args.take(&update.state[0]),
        compute: args.take_some(update.compute.as_ref()),
        weight_decay: update.weight_decay,
    });
    let tensors = tensors.collect();
    let Lion { rate, beta1, beta2 } = settings;
    let kernel = kernel::Lion {
        tensors,
        factor: args.take_part(factor, 0, 1),
        rate,
        beta1,
        beta2,
    };
    launch(&mut args, Kernel::Lion(kernel))
}

/// Advances the momentum of each tensor, its only state, and replaces its gradients by Nesterov's direction; weights stay.
/// `factor` is what [`clip_scale`] gave.
///
/// # Errors
/// As [`lion`].
pub fn momentum(device: &Device, updates: &[Update], factor: &Tensor, beta: f64) -> Result<()> {
    let mut args = checked(device, updates, factor, 1..=1)?;
    let tensors = updates.iter().map(|update| kernel::MomentumTensor {
        gradients: args.take(&update.gradients),
        momentum: args.take(&update.state[0]),
    });
    let tensors = tensors.collect();
    let kernel = kernel::Momentum {
        tensors,
        factor: args.take_part(factor, 0, 1),
        beta,
    };
    launch(&mut args, Kernel::Momentum(kernel))
}

/// `out = x / (sqrt(sum_squares) + epsilon)`, where `sum_squares` is what [`sum_squares`](fn@sum_squares) gave for `x`; `x` has
/// the accumulator type of `out`.
///
/// # Errors
/// [`Error::Invalid`] when `out` is not as long as `x` or of another type, and when `sum_squares` is not one f64.
pub fn unit_norm(x: &Tensor, sum_squares: &Tensor, epsilon: f64, out: &Tensor) -> Result<()> {
    holds("unit_norm", "sum of squares", sum_squares, 1, DType::F64)?;
    let accumulator = out.dtype().accumulator();
    holds("unit_norm", "x", x, out.num_elements(), accumulator)?;
    let mut args = Arguments::default();
    let kernel = kernel::UnitNorm {
        x: args.take(x),
        sum_squares: args.take(sum_squares),
        out: args.take(out),
        epsilon,
    };
    launch(&mut args, Kernel::UnitNorm(kernel))
}

// Checks that the tensors of each update fit one another and have as many states as the rule needs.
fn checked<'a>(
    device: &Device,
    updates: &[Update],
    factor: &Tensor,
    states: RangeInclusive<usize>,
) -> Result<Arguments<'a>> {
    updates
        .iter()
        .try_for_each(|update| check(update, &states))?;
    arguments(device, factor)
}

/// The arguments of an update, still empty, once its factor is known to be one of this device.
pub(super) fn arguments<'a>(device: &Device, factor: &Tensor) -> Result<Arguments<'a>> {
    device
        .key()
        .owns("optimiser", "a factor", factor.device().key())?;
    holds("optimiser", "factor", factor, 2, DType::F64)?;
    Ok(Arguments::default())
}

fn check(update: &Update, states: &RangeInclusive<usize>) -> Result<()> {
    let (count, dtype) = (update.weights.num_elements(), update.weights.dtype());
    if !states.contains(&update.state.len()) {
        let needed = format!("{} to {} for each", states.start(), states.end());
        return Err(Error::invalid(
            "optimiser",
            format!("{} state tensors", update.state.len()),
            needed,
        ));
    }
    holds("optimiser", "gradients", &update.gradients, count, dtype)?;
    update
        .state
        .iter()
        .try_for_each(|state| holds("optimiser", "state", state, count, dtype))?;
    update
        .compute
        .iter()
        .try_for_each(|copy| holds("optimiser", "copy", copy, count, copy.dtype()))?;
    Ok(())
}
