//! AdamW, stochastic gradient descent and Lion over many tensors. C++: `optimiser.h`.

use super::{
    DeviceTraits, Launch,
    batch::{Batch, batches, launch},
    layouts::{Layout, params},
    squares::code,
};
use bytemuck::Zeroable;
use hal::{
    RawSlice, Result,
    kernel::{AdamW, AdamWTensor, Lion, LionTensor, Sgd, SgdTensor},
};

/// Tensors in the arguments of one launch.
const ADAMW_TENSORS: usize = 48;
const SGD_TENSORS: usize = 64;
const LION_TENSORS: usize = 64;

params! {
    struct AdamWEntry {
        weights: u64,
        gradients: u64,
        first: u64,
        second: u64,
        compute: u64,
        len: u64,
        keep: f64,
        first_block: u32,
        compute_dtype: u32,
    }
    struct AdamWParams {
        factor: u64,
        one_minus_beta1: f64,
        beta2: f64,
        one_minus_beta2: f64,
        root_of_correction2: f64,
        epsilon: f64,
        step_size: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [AdamWEntry; ADAMW_TENSORS],
    }
    struct SgdEntry {
        weights: u64,
        gradients: u64,
        velocity: u64,
        compute: u64,
        len: u64,
        weight_decay: f64,
        first_block: u32,
        compute_dtype: u32,
    }
    struct SgdParams {
        factor: u64,
        rate: f64,
        momentum: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [SgdEntry; SGD_TENSORS],
    }
    struct LionEntry {
        weights: u64,
        gradients: u64,
        momentum: u64,
        compute: u64,
        len: u64,
        keep: f64,
        first_block: u32,
        compute_dtype: u32,
    }
    struct LionParams {
        factor: u64,
        one_minus_beta1: f64,
        one_minus_beta2: f64,
        rate: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [LionEntry; LION_TENSORS],
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    AdamWEntry::LAYOUT,
    AdamWParams::LAYOUT,
    SgdEntry::LAYOUT,
    SgdParams::LAYOUT,
    LionEntry::LAYOUT,
    LionParams::LAYOUT,
];

/// Refuses weights that are not accumulators and compute types that are not floats.
pub(super) fn check(
    operation: &str,
    weights: RawSlice,
    compute: Option<RawSlice>,
    traits: &DeviceTraits,
) -> Result<()> {
    traits.accumulator(operation, weights.dtype)?;
    compute
        .map_or(Ok(""), |compute| traits.float(operation, compute.dtype))
        .map(|_| ())
}

/// The type and the elements of a slice.
pub(super) fn extent(slice: RawSlice) -> (hal::DType, usize) {
    (slice.dtype, slice.len)
}

pub(super) fn address(slice: Option<RawSlice>) -> u64 {
    slice.map_or(0, |slice| slice.addr)
}

pub(super) fn compute_code(compute: Option<RawSlice>) -> u32 {
    compute.map_or(0, |compute| code(compute.dtype))
}

pub(super) fn adamw(args: &AdamW, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        check("adamw", tensor.weights, tensor.compute, traits)?;
    }
    let batches = batches(
        &args.tensors,
        |tensor| extent(tensor.weights),
        ADAMW_TENSORS,
    );
    Ok(batches
        .iter()
        .map(|batch| adamw_batch(args, batch))
        .collect())
}

/// What a step of AdamW divides by and multiplies with.
pub(super) struct AdamWNumbers {
    pub(super) root_of_correction2: f64,
    pub(super) step_size: f64,
}

impl AdamWNumbers {
    pub(super) fn new(rate: f64, [beta1, beta2]: [f64; 2], step: u64) -> AdamWNumbers {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        AdamWNumbers {
            root_of_correction2: correction(beta2).sqrt(),
            step_size: rate / correction(beta1),
        }
    }
}

fn adamw_batch(args: &AdamW, batch: &Batch<'_, AdamWTensor>) -> Launch {
    let numbers = AdamWNumbers::new(args.rate, [args.beta1, args.beta2], args.step);
    let mut params = AdamWParams {
        factor: args.factor.addr,
        one_minus_beta1: 1.0 - args.beta1,
        beta2: args.beta2,
        one_minus_beta2: 1.0 - args.beta2,
        root_of_correction2: numbers.root_of_correction2,
        epsilon: args.epsilon,
        step_size: numbers.step_size,
        num_tensors: batch.tensors.len() as u32,
        ..Zeroable::zeroed()
    };
    for (entry, (tensor, first)) in params.tensors.iter_mut().zip(&batch.tensors) {
        *entry = adamw_entry(tensor, args.rate, *first);
    }
    launch("adamw", batch, &params)
}

fn adamw_entry(tensor: &AdamWTensor, rate: f64, first_block: u32) -> AdamWEntry {
    AdamWEntry {
        weights: tensor.weights.addr,
        gradients: tensor.gradients.addr,
        first: tensor.first.addr,
        second: tensor.second.addr,
        compute: address(tensor.compute),
        len: tensor.weights.len as u64,
        keep: 1.0 - rate * tensor.weight_decay,
        first_block,
        compute_dtype: compute_code(tensor.compute),
    }
}

pub(super) fn sgd(args: &Sgd, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        check("sgd", tensor.weights, tensor.compute, traits)?;
    }
    let batches = batches(&args.tensors, |tensor| extent(tensor.weights), SGD_TENSORS);
    Ok(batches.iter().map(|batch| sgd_batch(args, batch)).collect())
}

fn sgd_batch(args: &Sgd, batch: &Batch<'_, SgdTensor>) -> Launch {
    let mut params = SgdParams {
        factor: args.factor.addr,
        rate: args.rate,
        momentum: args.momentum,
        num_tensors: batch.tensors.len() as u32,
        ..Zeroable::zeroed()
    };
    for (entry, (tensor, first)) in params.tensors.iter_mut().zip(&batch.tensors) {
        *entry = sgd_entry(tensor, *first);
    }
    launch("sgd", batch, &params)
}

fn sgd_entry(tensor: &SgdTensor, first_block: u32) -> SgdEntry {
    SgdEntry {
        weights: tensor.weights.addr,
        gradients: tensor.gradients.addr,
        velocity: address(tensor.velocity),
        compute: address(tensor.compute),
        len: tensor.weights.len as u64,
        weight_decay: tensor.weight_decay,
        first_block,
        compute_dtype: compute_code(tensor.compute),
    }
}

pub(super) fn lion(args: &Lion, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        check("lion", tensor.weights, tensor.compute, traits)?;
    }
    let batches = batches(&args.tensors, |tensor| extent(tensor.weights), LION_TENSORS);
    Ok(batches
        .iter()
        .map(|batch| lion_batch(args, batch))
        .collect())
}

fn lion_batch(args: &Lion, batch: &Batch<'_, LionTensor>) -> Launch {
    let mut params = LionParams {
        factor: args.factor.addr,
        one_minus_beta1: 1.0 - args.beta1,
        one_minus_beta2: 1.0 - args.beta2,
        rate: args.rate,
        num_tensors: batch.tensors.len() as u32,
        ..Zeroable::zeroed()
    };
    for (entry, (tensor, first)) in params.tensors.iter_mut().zip(&batch.tensors) {
        *entry = lion_entry(tensor, args.rate, *first);
    }
    launch("lion", batch, &params)
}

fn lion_entry(tensor: &LionTensor, rate: f64, first_block: u32) -> LionEntry {
    LionEntry {
        weights: tensor.weights.addr,
        gradients: tensor.gradients.addr,
        momentum: tensor.momentum.addr,
        compute: address(tensor.compute),
        len: tensor.weights.len as u64,
        keep: 1.0 - rate * tensor.weight_decay,
        first_block,
        compute_dtype: compute_code(tensor.compute),
    }
}
