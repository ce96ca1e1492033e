//! AdamW with moments that are kept as 8-bit codes: see [`hal::kernel::coded`].

use super::{
    holds, launch,
    optimiser::{AdamW, arguments},
};
use crate::{Arguments, Device, Tensor};
use hal::{DType, Error, Kernel, Result, codes::BlockPlace, kernel};

/// A tensor to update, whose state is kept as codes. Of each pair, the first is of the first moments.
#[derive(Clone, Debug)]
pub struct CodedUpdate {
    /// Master weights.
    pub weights: Tensor,
    /// Gradients, as many and of that type.
    pub gradients: Tensor,
    /// Codes of the moments, as many, u8.
    pub codes: [Tensor; 2],
    /// Their scales, one for each block of the rank's part of the matrix, of the type of the weights.
    pub scales: [Tensor; 2],
    /// The scales of the new codes, as many.
    pub next: [Tensor; 2],
    /// Where the elements lie in the blocks.
    pub place: BlockPlace,
    /// Copy of the weights in the compute type, if it differs.
    pub compute: Option<Tensor>,
    /// Weight decay of this tensor.
    pub weight_decay: f64,
}

/// Sets the next scales of the blocks that the tensors touch to the largest magnitudes of the moments that
/// [`coded_adamw`] computes of them; `factor` is what [`clip_scale`](super::optimiser::clip_scale) gave.
///
/// # Errors
/// [`Error::Invalid`] when lengths or types do not fit, and for tensors of another device.
pub fn coded_scales(
    device: &Device,
    updates: &[CodedUpdate],
    factor: &Tensor,
    settings: AdamW,
) -> Result<()> {
    let mut args = checked(device, updates, factor)?;
    let tensors = updates.iter().map(|update| kernel::CodedScalesTensor {
        gradients: args.take(&update.gradients),
        codes: update.codes.each_ref().map(|codes| args.take(codes)),
        scales: update.scales.each_ref().map(|scales| args.take(scales)),
        next: update.next.each_ref().map(|next| args.take(next)),
        place: update.place,
    });
    let tensors = tensors.collect();
    let kernel = kernel::CodedScales {
        tensors,
        factor: args.take_part(factor, 0, 1),
        beta1: settings.beta1,
        beta2: settings.beta2,
    };
    launch(&mut args, Kernel::CodedScales(kernel))
}

/// One AdamW update, which reads the old and the next scales.
///
/// # Errors
/// As [`coded_scales`].
pub fn coded_adamw(
    device: &Device,
    updates: &[CodedUpdate],
    factor: &Tensor,
    settings: AdamW,
) -> Result<()> {
    let mut args = checked(device, updates, factor)?;
    let tensors = updates.iter().map(|update| kernel::CodedAdamWTensor {
        weights: args.take(&update.weights),
        gradients: args.take(&update.gradients),
        codes: update.codes.each_ref().map(|codes| args.take(codes)),
        scales: update.scales.each_ref().map(|scales| args.take(scales)),
        next: update.next.each_ref().map(|next| args.take(next)),
        compute: args.take_some(update.compute.as_ref()),
        place: update.place,
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
    let kernel = kernel::CodedAdamW {
        tensors,
        factor: args.take_part(factor, 0, 1),
        rate,
        beta1,
        beta2,
        epsilon,
        step,
    };
    launch(&mut args, Kernel::CodedAdamW(kernel))
}

fn checked<'a>(device: &Device, updates: &[CodedUpdate], factor: &Tensor) -> Result<Arguments<'a>> {
    updates.iter().try_for_each(check)?;
    arguments(device, factor)
}

fn check(update: &CodedUpdate) -> Result<()> {
    let (count, dtype) = (update.weights.num_elements(), update.weights.dtype());
    holds("optimiser", "gradients", &update.gradients, count, dtype)?;
    let mut codes = update.codes.iter();
    codes.try_for_each(|codes| holds("optimiser", "codes", codes, count, DType::U8))?;
    let mut copies = update.compute.iter();
    copies.try_for_each(|copy| holds("optimiser", "copy", copy, count, copy.dtype()))?;
    let blocks = update.scales[0].num_elements();
    let (place, held) = (update.place, update.place.num_blocks(count));
    if held.is_none_or(|held| held > blocks) {
        let needed = held.map_or("a column at least".into(), |held| format!("{held} scales"));
        let found = format!("{blocks} scales for {count} elements at {place:?}");
        return Err(Error::invalid("optimiser", found, needed));
    }
    let mut scales = update.scales.iter().chain(&update.next);
    scales.try_for_each(|scales| holds("optimiser", "scales", scales, blocks, dtype))
}
