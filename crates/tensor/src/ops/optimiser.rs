//! Updates of many tensors at once, with the gradients' norm and its check left on the device.

use super::{holds, launch};
use crate::{Device, Tensor, overlap};
use hal::{DType, Error, Kernel, Result, kernel};

/// Adds the squares of all elements to `out`, one f64.
///
/// # Errors
/// [`Error::Invalid`] when `out` is not one f64.
pub fn sum_squares(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    holds("sum_squares", "result", out, 1, DType::F64)?;
    super::disjoint("sum_squares", out, tensors)?;
    let slices = tensors.iter().map(|tensor| tensor.raw()).collect();
    launch(
        out.device(),
        tensors,
        &[out],
        Kernel::SumSquares(kernel::SumSquares {
            slices,
            out: out.raw(),
        }),
    )
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
    let kernel = kernel::ClipScale {
        sum_squares: sum_squares.raw(),
        out: out.raw(),
        max_norm,
        gradient_scale,
    };
    launch(
        out.device(),
        &[sum_squares],
        &[&out],
        Kernel::ClipScale(kernel),
    )?;
    Ok(out)
}

/// A tensor to update and what belongs to it; all are equally long.
#[derive(Clone, Debug)]
pub struct Update {
    /// Master weights.
    pub weights: Tensor,
    /// Gradients.
    pub gradients: Tensor,
    /// State of the optimiser: two moments for AdamW, at most one velocity for SGD.
    pub state: Vec<Tensor>,
    /// Copy of the weights in the compute type, where it differs.
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
/// [`Error::Invalid`] when lengths or types do not fit.
pub fn adamw(device: &Device, updates: &[Update], factor: &Tensor, settings: AdamW) -> Result<()> {
    updates.iter().try_for_each(|update| check(update, 2, 2))?;
    let tensors = updates.iter().map(|update| kernel::AdamWTensor {
        weights: update.weights.raw(),
        gradients: update.gradients.raw(),
        first: update.state[0].raw(),
        second: update.state[1].raw(),
        compute: update.compute.as_ref().map(Tensor::raw),
        weight_decay: update.weight_decay,
    });
    let AdamW {
        rate,
        beta1,
        beta2,
        epsilon,
        step,
    } = settings;
    let factor_slice = scalar_factor(factor)?;
    let tensors = tensors.collect();
    let kernel = kernel::AdamW {
        tensors,
        factor: factor_slice,
        rate,
        beta1,
        beta2,
        epsilon,
        step,
    };
    apply(device, updates, factor, Kernel::AdamW(kernel))
}

/// One SGD update; `factor` is what [`clip_scale`] gave.
///
/// # Errors
/// [`Error::Invalid`] when lengths or types do not fit.
pub fn sgd(
    device: &Device,
    updates: &[Update],
    factor: &Tensor,
    rate: f64,
    momentum: f64,
) -> Result<()> {
    updates.iter().try_for_each(|update| check(update, 0, 1))?;
    let tensors = updates.iter().map(|update| kernel::SgdTensor {
        weights: update.weights.raw(),
        gradients: update.gradients.raw(),
        velocity: update.state.first().map(Tensor::raw),
        compute: update.compute.as_ref().map(Tensor::raw),
        weight_decay: update.weight_decay,
    });
    let kernel = kernel::Sgd {
        tensors: tensors.collect(),
        factor: scalar_factor(factor)?,
        rate,
        momentum,
    };
    apply(device, updates, factor, Kernel::Sgd(kernel))
}

fn scalar_factor(factor: &Tensor) -> Result<hal::RawSlice> {
    holds("optimiser", "factor", factor, 2, DType::F64)?;
    Ok(factor.raw().part(0, 1))
}

fn apply(device: &Device, updates: &[Update], factor: &Tensor, kernel: Kernel) -> Result<()> {
    let reads: Vec<_> = updates
        .iter()
        .map(|update| &update.gradients)
        .chain([factor])
        .collect();
    let written = |update: &'_ Update| -> Vec<Tensor> {
        [std::slice::from_ref(&update.weights), &update.state]
            .concat()
            .into_iter()
            .chain(update.compute.clone())
            .collect()
    };
    let writes: Vec<Tensor> = updates.iter().flat_map(written).collect();
    let writes: Vec<&Tensor> = writes.iter().collect();
    apart(&reads, &writes)?;
    launch(device, &reads, &writes, kernel)
}

// Nothing is updated twice, and no gradient is written over.
fn apart(reads: &[&Tensor], writes: &[&Tensor]) -> Result<()> {
    let read = reads.iter().map(|tensor| (tensor.raw(), false));
    let written = writes.iter().map(|tensor| (tensor.raw(), true));
    overlap::disjoint("optimiser", &mut read.chain(written).collect())
}

fn check(update: &Update, fewest: usize, most: usize) -> Result<()> {
    let (count, dtype) = (update.weights.num_elements(), update.weights.dtype());
    if !(fewest..=most).contains(&update.state.len()) {
        let needed = format!("{fewest} to {most} for each");
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
    let others: Vec<_> = [&update.gradients]
        .into_iter()
        .chain(&update.state)
        .chain(&update.compute)
        .collect();
    others
        .iter()
        .try_for_each(|other| super::disjoint("optimiser", &update.weights, &[other]))
}
