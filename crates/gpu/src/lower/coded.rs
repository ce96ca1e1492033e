//! AdamW with moments that are kept as 8-bit codes. C++: `coded.h`.

use super::{
    DeviceTraits, Launch,
    batch::{Batch, batches, launch},
    layouts::{Layout, params},
    optimiser::{AdamWNumbers, address, check, compute_code},
};
use bytemuck::Zeroable;
use hal::{
    RawSlice, Result,
    codes::{self, BlockPlace, Codes, DECADES},
    kernel::{CodedAdamW, CodedAdamWTensor, CodedScales, CodedScalesTensor},
};

/// Tensors in the arguments of one launch.
const CODED_TENSORS: usize = 24;

params! {
    struct CodeNumbers {
        thresholds: [f64; DECADES + 1],
        densities: [f64; DECADES],
        firsts: [f64; DECADES + 1],
    }
    struct CodedEntry {
        weights: u64,
        gradients: u64,
        codes: [u64; 2],
        scales: [u64; 2],
        next: [u64; 2],
        compute: u64,
        len: u64,
        columns: u64,
        first_column: u64,
        start: u64,
        keep: f64,
        first_block: u32,
        compute_dtype: u32,
    }
    struct CodedParams {
        factor: u64,
        one_minus_beta1: f64,
        beta2: f64,
        one_minus_beta2: f64,
        root_of_correction2: f64,
        epsilon: f64,
        step_size: f64,
        numbers: [CodeNumbers; 2],
        num_tensors: u32,
        unused: u32,
        tensors: [CodedEntry; CODED_TENSORS],
    }
}

pub(super) const LAYOUTS: &[Layout] =
    &[CodeNumbers::LAYOUT, CodedEntry::LAYOUT, CodedParams::LAYOUT];

pub(super) fn coded_scales(args: &CodedScales, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        traits.accumulator("coded_scales", tensor.gradients.dtype)?;
    }
    let work = |tensor: &CodedScalesTensor| work(tensor.gradients, tensor.place);
    let batches = batches(&args.tensors, work, CODED_TENSORS);
    let lower = |batch: &Batch<'_, CodedScalesTensor>| {
        let mut params = params(args.factor, [args.beta1, args.beta2]);
        for (entry, (tensor, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
            let arrays = [tensor.codes, tensor.scales, tensor.next];
            *entry = placed(tensor.gradients, arrays, tensor.place, *first_block);
        }
        launched("coded_scales", batch, params)
    };
    Ok(batches.iter().map(lower).collect())
}

pub(super) fn coded_adamw(args: &CodedAdamW, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        check("coded_adamw", tensor.weights, tensor.compute, traits)?;
    }
    let work = |tensor: &CodedAdamWTensor| work(tensor.weights, tensor.place);
    let batches = batches(&args.tensors, work, CODED_TENSORS);
    let lower = |batch: &Batch<'_, CodedAdamWTensor>| {
        let betas = [args.beta1, args.beta2];
        let numbers = AdamWNumbers::new(args.rate, betas, args.step);
        let mut params = CodedParams {
            root_of_correction2: numbers.root_of_correction2,
            epsilon: args.epsilon,
            step_size: numbers.step_size,
            ..params(args.factor, betas)
        };
        for (entry, (tensor, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
            let arrays = [tensor.codes, tensor.scales, tensor.next];
            *entry = CodedEntry {
                weights: tensor.weights.addr,
                compute: address(tensor.compute),
                keep: 1.0 - args.rate * tensor.weight_decay,
                compute_dtype: compute_code(tensor.compute),
                ..placed(tensor.gradients, arrays, tensor.place, *first_block)
            };
        }
        launched("coded_adamw", batch, params)
    };
    Ok(batches.iter().map(lower).collect())
}

/// The type, and the elements of complete blocks that the slice touches.
fn work(slice: RawSlice, place: BlockPlace) -> (hal::DType, usize) {
    (slice.dtype, place.blocks(slice.len).len() * codes::BLOCK)
}

/// What both kernels read.
fn params(factor: RawSlice, [beta1, beta2]: [f64; 2]) -> CodedParams {
    let numbers = |codes: Codes| CodeNumbers {
        thresholds: codes.thresholds(),
        densities: codes.densities(),
        firsts: std::array::from_fn(|decade| codes.first(decade) as f64),
    };
    CodedParams {
        factor: factor.addr,
        one_minus_beta1: 1.0 - beta1,
        beta2,
        one_minus_beta2: 1.0 - beta2,
        numbers: [Codes::Signed, Codes::Unsigned].map(numbers),
        ..Zeroable::zeroed()
    }
}

fn placed(
    gradients: RawSlice,
    [codes, scales, next]: [[RawSlice; 2]; 3],
    place: BlockPlace,
    first_block: u32,
) -> CodedEntry {
    let addresses = |pair: [RawSlice; 2]| pair.map(|slice| slice.addr);
    CodedEntry {
        gradients: gradients.addr,
        codes: addresses(codes),
        scales: addresses(scales),
        next: addresses(next),
        len: gradients.len as u64,
        columns: place.columns as u64,
        first_column: place.first_column as u64,
        start: place.start as u64,
        first_block,
        ..Zeroable::zeroed()
    }
}

fn launched<T>(operation: &str, batch: &Batch<'_, T>, params: CodedParams) -> Launch {
    let params = CodedParams {
        num_tensors: batch.tensors.len() as u32,
        ..params
    };
    // The shares of 512 codes.
    launch(operation, batch, &params).with_shared(512 * batch.dtype.bytes() as u32)
}
