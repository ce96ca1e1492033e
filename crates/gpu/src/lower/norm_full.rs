//! LayerNorm and RMSNorm of full rows, which are read once in each direction. C++: `norm_full.h`, `norm_full_backward.h`.
//!
//! Rows that are too long for the registers of a block take the kernels of rows that are cut, which have the same bits.

use super::name::Name;
use super::{
    DeviceTraits, Launch, elementwise,
    layouts::{Layout, params},
    norm::{self, NormSizes, add_column_parts, column_bytes, unless_empty},
    shape::{blocks, pack, parts},
};
use hal::{
    DType, RawSlice, Result,
    kernel::{Axpby, NormBackward, NormForward, NormalizeBackward, NormalizeSums},
};

params! {
    struct NormForwardParams {
        sizes: NormSizes,
        x: u64,
        addend: u64,
        sum: u64,
        gain: u64,
        bias: u64,
        moments: u64,
        out: u64,
        warps_of_row: u64,
    }
    struct NormBackwardParams {
        sizes: NormSizes,
        x: u64,
        moments: u64,
        gain: u64,
        d_out: u64,
        addend: u64,
        d_x: u64,
        partials: u64,
        rows_of_part: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[NormForwardParams::LAYOUT, NormBackwardParams::LAYOUT];

/// Chunks of a row that a warp keeps, as in `norm_full.h`.
const KEPT_CHUNKS: usize = 4;
/// The most threads of a block of the forward kernel, as there.
const FORWARD_THREADS: u32 = 256;
/// Threads of a block of the forward kernel, if a row does not need more. Few, because all rows of a block meet at its barriers: on an
/// H200, 8192 rows of 2048 take 30.0 us with blocks of one row, and 31.6 us with blocks of four.
const LEAST_THREADS: u32 = 64;
/// Packs of x that a thread reads ahead, and the most threads of a block, as in `norm_full_backward.h`.
const BACKWARD_PACKS: usize = 2;
const BACKWARD_THREADS: usize = 512;

/// Chunks of a row: packs of neighbouring columns, one for each lane of a warp.
fn chunks(columns: usize, dtype: DType, traits: &DeviceTraits) -> usize {
    columns.div_ceil(pack(dtype) * traits.warp as usize)
}

pub(super) fn forward(args: &NormForward, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (shape, dtype) = (args.shape, args.x.dtype);
    let name = Name::of("norm_forward_").and(traits.float("norm_forward", dtype)?);
    let warps = chunks(shape.columns, dtype, traits)
        .div_ceil(KEPT_CHUNKS)
        .max(1);
    let warps_of = |threads: u32| (threads / traits.warp) as usize;
    if warps > warps_of(FORWARD_THREADS) {
        return forward_in_steps(args, traits);
    }
    let rows_of_block = (warps_of(LEAST_THREADS) / warps).max(1) as u32;
    let (x, addend, sum) = match args.addends {
        None => (args.x.addr, 0, 0),
        Some([a, b]) => (a.addr, b.addr, args.x.addr),
    };
    let params = NormForwardParams {
        sizes: shape.into(),
        x,
        addend,
        sum,
        gain: args.gain.addr,
        bias: args.bias.map_or(0, |bias| bias.addr),
        moments: args.moments.addr,
        out: args.out.addr,
        warps_of_row: warps as u64,
    };
    let warps_of_block = rows_of_block * warps as u32;
    let grid = [blocks(shape.rows, rows_of_block as usize), 1, 1];
    let launch = Launch::new(name, grid, [warps_of_block * traits.warp, 1, 1], &params);
    // A node has two accumulators and a number of columns, which takes as much as one.
    let node = 3 * dtype.accumulator().bytes() as u32;
    Ok(unless_empty(
        shape,
        vec![launch.with_shared(warps_of_block * node)],
    ))
}

fn forward_in_steps(args: &NormForward, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (moments, normalize) = args.steps();
    let sum = args.sum().map(|sum| elementwise::binary(&sum, traits));
    let mut launches = sum.transpose()?.unwrap_or_default();
    launches.extend(norm::moments(&moments, traits)?);
    launches.extend(norm::normalize(&normalize, traits)?);
    Ok(launches)
}

/// Packs of each row that a thread of the backward kernel takes; `None` if a block has too few threads for a row.
fn packs_of_thread(args: &NormBackward, traits: &DeviceTraits) -> Option<usize> {
    let warps = BACKWARD_THREADS / traits.warp as usize;
    let packs = chunks(args.shape.columns, args.x.dtype, traits).div_ceil(warps);
    (packs <= BACKWARD_PACKS).then_some(packs.max(1))
}

/// The steps, whose row sums lie behind what else they have in the workspace, and the bytes of all.
fn steps(args: &NormBackward, workspace: u64) -> ((NormalizeSums, NormalizeBackward), usize) {
    let sums = |addr| RawSlice {
        addr,
        len: 2 * args.shape.rows,
        dtype: args.x.dtype.accumulator(),
    };
    let (first, _) = args.steps(sums(workspace));
    let before = norm::normalize_sums_workspace(&first).next_multiple_of(16);
    let steps = args.steps(sums(workspace + before as u64));
    let bytes = before + steps.0.sums.bytes();
    (steps, bytes)
}

pub(super) fn backward_workspace(args: &NormBackward, traits: &DeviceTraits) -> usize {
    match packs_of_thread(args, traits) {
        Some(_) => column_bytes(args.shape, args.x.dtype),
        None => steps(args, 0).1,
    }
}

/// Sums down the columns are made in parts, as in the steps, and then added.
pub(super) fn backward(
    args: &NormBackward,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let (shape, dtype) = (args.shape, args.x.dtype);
    let name = traits.float("norm_backward", dtype)?;
    let Some(packs) = packs_of_thread(args, traits) else {
        return backward_in_steps(args, traits, workspace);
    };
    let (rows_of_part, num_parts) = parts(shape.rows);
    let params = NormBackwardParams {
        sizes: shape.into(),
        x: args.x.addr,
        moments: args.moments.addr,
        gain: args.gain.addr,
        d_out: args.d_out.addr,
        addend: args.addend.map_or(0, |addend| addend.addr),
        d_x: args.d_x.addr,
        partials: workspace,
        rows_of_part: rows_of_part as u64,
    };
    let name = Name::of("norm_backward_").and(packs).and("_").and(name);
    let warps = chunks(shape.columns, dtype, traits).div_ceil(packs);
    let block = [warps as u32 * traits.warp, 1, 1];
    let launch = Launch::new(name, [num_parts as u32, 1, 1], block, &params);
    // Two batches of rows have a node in each warp: two accumulators.
    let nodes = 2 * warps * (BACKWARD_PACKS / packs);
    let launch = launch.with_shared((nodes * 2 * dtype.accumulator().bytes()) as u32);
    let mut launches = unless_empty(shape, vec![launch]);
    launches.extend(add_column_parts(
        shape,
        workspace,
        (args.d_gain, args.d_bias),
        args.beta,
    ));
    Ok(launches)
}

fn backward_in_steps(
    args: &NormBackward,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let ((sums, rest), _) = steps(args, workspace);
    let mut launches = norm::normalize_sums(&sums, traits, workspace)?;
    launches.extend(norm::normalize_backward(&rest, traits)?);
    if let Some(x) = args.addend {
        let (y, alpha, beta) = (args.d_x, 1.0, 1.0);
        launches.extend(elementwise::axpby(&Axpby { x, y, alpha, beta }, traits)?);
    }
    Ok(launches)
}
