//! Means of the squares of rows and columns, and directions of updates by them. C++: `factored.h`.

use super::{
    DeviceTraits, Launch,
    batch::{Batch, PART, batches, launch},
    layouts::{Layout, params},
    lines::work_of_rows,
    name::Name,
    shape::{THREADS, reduction_bytes},
};
use bytemuck::Zeroable;
use hal::{
    RawSlice, Result,
    kernel::{
        ClipDirections, ClipDirectionsTensor, FactorDirections, FactorDirectionsTensor,
        FactorMeans, FactorMeansTensor, factored::rounds,
    },
};

/// Tensors in the arguments of one launch.
const FACTOR_TENSORS: usize = 24;
const DIRECTION_TENSORS: usize = 32;

params! {
    struct FactorMeansEntry {
        largest: [u64; 2],
        sums: [u64; 2],
        means: [u64; 2],
        factors: [u64; 2],
        counts: [u64; 2],
        rounds: f64,
        first_block: u32,
        unused: u32,
    }
    struct FactorMeansParams {
        factor: u64,
        keep: f64,
        one_minus_keep: f64,
        epsilon: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [FactorMeansEntry; FACTOR_TENSORS],
    }
    struct FactorDirectionsEntry {
        gradients: u64,
        factors: [u64; 2],
        len: u64,
        columns: u64,
        start: u64,
        first_block: u32,
        unused: u32,
    }
    struct FactorDirectionsParams {
        factor: u64,
        num_tensors: u32,
        unused: u32,
        tensors: [FactorDirectionsEntry; DIRECTION_TENSORS],
    }
    struct ClipDirectionsEntry {
        largest: u64,
        sums: u64,
        out: u64,
        rows: u64,
        elements: f64,
        rounds: f64,
        first_block: u32,
        unused: u32,
    }
    struct ClipDirectionsParams {
        factor: u64,
        most: f64,
        num_tensors: u32,
        unused: u32,
        tensors: [ClipDirectionsEntry; DIRECTION_TENSORS],
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    FactorMeansEntry::LAYOUT,
    FactorMeansParams::LAYOUT,
    FactorDirectionsEntry::LAYOUT,
    FactorDirectionsParams::LAYOUT,
    ClipDirectionsEntry::LAYOUT,
    ClipDirectionsParams::LAYOUT,
];

pub(super) fn factor_means(args: &FactorMeans, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        traits.accumulator("factor_means", tensor.means[0].dtype)?;
    }
    // One block for each matrix.
    let work = |tensor: &FactorMeansTensor| (tensor.means[0].dtype, PART);
    let addresses = |pair: [RawSlice; 2]| pair.map(|slice| slice.addr);
    let lower = |batch: &Batch<'_, FactorMeansTensor>| {
        let mut params = FactorMeansParams {
            factor: args.factor.addr,
            keep: args.keep,
            one_minus_keep: 1.0 - args.keep,
            epsilon: args.epsilon,
            num_tensors: batch.tensors.len() as u32,
            ..Zeroable::zeroed()
        };
        for (entry, (tensor, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
            *entry = FactorMeansEntry {
                largest: addresses(tensor.largest),
                sums: addresses(tensor.sums),
                means: addresses(tensor.means),
                factors: addresses(tensor.factors),
                counts: tensor.means.map(|means| means.len as u64),
                rounds: rounds(tensor.means[0].len),
                first_block: *first_block,
                unused: 0,
            };
        }
        launch("factor_means", batch, &params).with_shared(reduction_bytes(THREADS, traits))
    };
    let batches = batches(&args.tensors, work, FACTOR_TENSORS);
    Ok(batches.iter().map(lower).collect())
}

pub(super) fn factor_directions(
    args: &FactorDirections,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    for tensor in &args.tensors {
        traits.accumulator("factor_directions", tensor.gradients.dtype)?;
    }
    let work = |tensor: &FactorDirectionsTensor| work_of_rows(tensor.gradients, tensor.place);
    let lower = |batch: &Batch<'_, FactorDirectionsTensor>| {
        let mut params = FactorDirectionsParams {
            factor: args.factor.addr,
            num_tensors: batch.tensors.len() as u32,
            ..Zeroable::zeroed()
        };
        for (entry, (tensor, first_block)) in params.tensors.iter_mut().zip(&batch.tensors) {
            *entry = FactorDirectionsEntry {
                gradients: tensor.gradients.addr,
                factors: tensor.factors.map(|factors| factors.addr),
                len: tensor.gradients.len as u64,
                columns: tensor.place.columns as u64,
                start: tensor.place.start as u64,
                first_block: *first_block,
                unused: 0,
            };
        }
        launch("factor_directions", batch, &params)
    };
    let batches = batches(&args.tensors, work, DIRECTION_TENSORS);
    Ok(batches.iter().map(lower).collect())
}

pub(super) fn clip_directions(args: &ClipDirections, traits: &DeviceTraits) -> Vec<Launch> {
    let lower = |tensors: &[ClipDirectionsTensor]| {
        let mut params = ClipDirectionsParams {
            factor: args.factor.addr,
            most: args.most,
            num_tensors: tensors.len() as u32,
            ..Zeroable::zeroed()
        };
        for (index, (entry, tensor)) in params.tensors.iter_mut().zip(tensors).enumerate() {
            *entry = ClipDirectionsEntry {
                largest: tensor.largest.addr,
                sums: tensor.sums.addr,
                out: tensor.out.addr,
                rows: tensor.sums.len as u64,
                elements: tensor.elements as f64,
                rounds: rounds(tensor.sums.len),
                first_block: index as u32,
                unused: 0,
            };
        }
        let (grid, block) = ([tensors.len() as u32, 1, 1], [THREADS, 1, 1]);
        Launch::new(Name::of("clip_directions"), grid, block, &params)
            .with_shared(reduction_bytes(THREADS, traits))
    };
    args.tensors.chunks(DIRECTION_TENSORS).map(lower).collect()
}
