//! Nesterov momentum over many tensors, and a matrix over its norm. C++: `muon.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    batch::{Batch, batches, launch},
    layouts::{Layout, params},
    optimiser::extent,
    shape::{flat, pack},
    squares::code,
};
use bytemuck::Zeroable;
use hal::{
    Result,
    kernel::{Momentum, MomentumTensor, UnitNorm},
};

/// Tensors in the arguments of one launch.
const MOMENTUM_TENSORS: usize = 96;

params! {
    struct MomentumEntry {
        gradients: u64,
        momentum: u64,
        len: u64,
        first_block: u32,
        unused: u32,
    }
    struct MomentumParams {
        factor: u64,
        beta: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [MomentumEntry; MOMENTUM_TENSORS],
    }
    struct UnitNormParams {
        x: u64,
        sum_squares: u64,
        out: u64,
        len: u64,
        epsilon: f64,
        out_dtype: u32,
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    MomentumEntry::LAYOUT,
    MomentumParams::LAYOUT,
    UnitNormParams::LAYOUT,
];

pub(super) fn momentum(args: &Momentum, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        traits.accumulator("momentum", tensor.gradients.dtype)?;
    }
    let batches = batches(
        &args.tensors,
        |tensor| extent(tensor.gradients),
        MOMENTUM_TENSORS,
    );
    Ok(batches
        .iter()
        .map(|batch| momentum_batch(args, batch))
        .collect())
}

fn momentum_batch(args: &Momentum, batch: &Batch<'_, MomentumTensor>) -> Launch {
    let mut params = MomentumParams {
        factor: args.factor.addr,
        beta: args.beta,
        num_tensors: batch.tensors.len() as u32,
        ..Zeroable::zeroed()
    };
    for (entry, (tensor, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
        *entry = MomentumEntry {
            gradients: tensor.gradients.addr,
            momentum: tensor.momentum.addr,
            len: tensor.gradients.len as u64,
            first_block: *first_block,
            unused: 0,
        };
    }
    launch("momentum", batch, &params)
}

pub(super) fn unit_norm(args: &UnitNorm, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    traits.accumulator("unit_norm", args.x.dtype)?;
    traits.float("unit_norm", args.out.dtype)?;
    if args.x.len == 0 {
        return Ok(Vec::new());
    }
    let params = UnitNormParams {
        x: args.x.addr,
        sum_squares: args.sum_squares.addr,
        out: args.out.addr,
        len: args.x.len as u64,
        epsilon: args.epsilon,
        out_dtype: code(args.out.dtype),
        unused: 0,
    };
    let name = Name::of("unit_norm_").and(args.x.dtype);
    let (grid, block) = flat(args.x.len, pack(args.x.dtype));
    Ok(vec![Launch::new(name, grid, block, &params)])
}
