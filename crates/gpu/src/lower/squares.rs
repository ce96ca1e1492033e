//! The norm of all gradients and the factor that clips them. C++: `squares.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{THREADS, reduction_bytes, threads},
};
use bytemuck::Zeroable;
use hal::{
    DType, RawSlice, Result,
    kernel::{ClipScale, SumSquares},
};

/// Elements of one slice whose squares make one partial sum.
const PART: usize = 32_768;
/// Slices in the arguments of one launch.
const SLICES: usize = 128;

params! {
    struct SquaresSlice { x: u64, len: u64, first_block: u32, dtype: u32, }
    struct SquaresPartsParams { partials: u64, num_slices: u32, unused: u32, slices: [SquaresSlice; SLICES], }
    struct SquaresTotalParams { partials: u64, out: u64, parts: u64, }
    struct ClipScaleParams { sum_squares: u64, out: u64, max_norm: f64, gradient_scale: f64, }
}

pub(super) const LAYOUTS: &[Layout] = &[
    SquaresSlice::LAYOUT,
    SquaresPartsParams::LAYOUT,
    SquaresTotalParams::LAYOUT,
    ClipScaleParams::LAYOUT,
];

/// How device functions number the float types.
pub(super) fn code(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 0,
        DType::Bf16 => 2,
        DType::F16 => 3,
        _ => 1,
    }
}

fn parts(slice: &RawSlice) -> usize {
    slice.len.div_ceil(PART)
}

pub(super) fn sum_squares_workspace(args: &SumSquares) -> usize {
    args.slices.iter().map(parts).sum::<usize>() * size_of::<f64>()
}

pub(super) fn sum_squares(
    args: &SumSquares,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    for slice in &args.slices {
        traits.float("sum_squares", slice.dtype)?;
    }
    let slices: Vec<RawSlice> = args
        .slices
        .iter()
        .filter(|slice| slice.len > 0)
        .copied()
        .collect();
    let mut done = 0;
    let mut launches = Vec::new();
    for slices in slices.chunks(SLICES) {
        let (launch, parts) = squares_of(slices, workspace + 8 * done as u64, traits);
        launches.push(launch);
        done += parts;
    }
    launches.extend((done > 0).then(|| total(args, workspace, done, traits)));
    Ok(launches)
}

/// The launch for the slices that fit into its arguments, and the number of their parts.
fn squares_of(slices: &[RawSlice], partials: u64, traits: &DeviceTraits) -> (Launch, usize) {
    let mut params = SquaresPartsParams {
        partials,
        num_slices: slices.len() as u32,
        ..Zeroable::zeroed()
    };
    let mut blocks = 0;
    for (entry, slice) in params.slices.iter_mut().zip(slices) {
        let (x, len, dtype) = (slice.addr, slice.len as u64, code(slice.dtype));
        *entry = SquaresSlice {
            x,
            len,
            first_block: blocks as u32,
            dtype,
        };
        blocks += parts(slice);
    }
    let launch = Launch::new(
        Name::of("squares_parts"),
        [blocks as u32, 1, 1],
        [THREADS, 1, 1],
        &params,
    );
    (launch.with_shared(reduction_bytes(THREADS, traits)), blocks)
}

fn total(args: &SumSquares, partials: u64, parts: usize, traits: &DeviceTraits) -> Launch {
    let params = SquaresTotalParams {
        partials,
        out: args.out.addr,
        parts: parts as u64,
    };
    let threads = threads(parts, 512, traits);
    let launch = Launch::new(
        Name::of("squares_total"),
        [1, 1, 1],
        [threads, 1, 1],
        &params,
    );
    launch.with_shared(reduction_bytes(threads, traits))
}

pub(super) fn clip_scale(args: &ClipScale, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    if args.sum_squares.dtype != DType::F64 {
        return Err(traits.unsupported("clip_scale", args.sum_squares.dtype));
    }
    let params = ClipScaleParams {
        sum_squares: args.sum_squares.addr,
        out: args.out.addr,
        max_norm: args.max_norm.unwrap_or(f64::INFINITY),
        gradient_scale: args.gradient_scale,
    };
    Ok(vec![Launch::new(
        Name::of("clip_scale"),
        [1, 1, 1],
        [1, 1, 1],
        &params,
    )])
}
