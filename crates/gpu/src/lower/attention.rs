//! Causal attention. C++: `attention.h` and its neighbours.
//!
//! 16-bit elements with heads of 64 or 128 elements go to the matrix units ([`super::attention_tiles`]), all others to
//! plain kernels that hold their tiles in shared memory.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    attention_order::{self as order, Side},
    attention_params::{
        AttentionBackwardParams, AttentionDeltaParams, AttentionForwardParams, AttentionSizes,
    },
    attention_tiles::{self as tiles, Pass, Unit},
    shape::{blocks, blocks_y, pack, warps},
};
use hal::{
    DType, Error, Result,
    kernel::{AttentionBackward, AttentionForward, AttentionShape},
};

/// Threads of a block of the plain kernels.
const THREADS: u32 = 128;

/// Shared memory of a block of the plain kernels: every device offers this much, and has room for a second block.
const MOST_SHARED: u32 = 48 << 10;

/// Rows that a block owns and rows that it reads at a time. The largest pair that fits is used.
const TILES: [[u32; 2]; 7] = [[16, 32], [16, 16], [8, 16], [8, 8], [4, 4], [2, 2], [1, 1]];

/// The largest tile whose `numbers` of type `dtype` fit into shared memory, and the bytes of these.
fn tile(
    operation: &str,
    shape: &AttentionShape,
    dtype: DType,
    traits: &DeviceTraits,
    numbers: impl Fn(u32, u32, u32) -> u32,
) -> Result<([u32; 2], u32)> {
    let size = shape.head_size as u32;
    let bytes =
        |[rows, others]: [u32; 2]| numbers(rows, others, size) * dtype.accumulator().bytes() as u32;
    let limit = traits.shared_bytes_per_block.min(MOST_SHARED);
    let fits = TILES
        .into_iter()
        .map(|tile| (tile, bytes(tile)))
        .find(|&(_, bytes)| bytes <= limit);
    fits.ok_or_else(|| {
        let found = format!(
            "heads of {size} elements of {dtype}, {} bytes of shared memory",
            bytes([1, 1])
        );
        Error::invalid(operation, found, format!("at most {limit} bytes"))
    })
}

/// Blocks of `rows_of_block` rows for `rows` rows of each of `heads` heads of each sequence.
fn grid(
    operation: &str,
    shape: &AttentionShape,
    rows_of_block: u32,
    side: Side,
) -> Result<[u32; 3]> {
    let [rows, heads] = side.rows(shape);
    Ok([
        blocks(rows, rows_of_block as usize),
        blocks_y(operation, "heads", heads)?,
        blocks_y(operation, "sequences", shape.sequences)?,
    ])
}

/// Whether there is nothing to write for these rows.
fn is_empty(shape: &AttentionShape, side: Side) -> bool {
    let [rows, heads] = side.rows(shape);
    shape.sequences * rows * heads * shape.head_size == 0
}

pub(super) fn forward(args: &AttentionForward, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    const NAME: &str = Pass::Forward.name();
    let (shape, dtype) = (&args.shape, traits.float(NAME, args.q.dtype)?);
    if is_empty(shape, Side::Queries) {
        return Ok(Vec::new());
    }
    if tiles::serve(shape, &[args.q, args.k, args.v, args.out]) {
        let params = AttentionForwardParams::new(args, [0, 0]);
        let rows = Unit::of(shape, traits).rows(Pass::Forward, shape);
        let grid = order::grid(NAME, shape, rows, Side::Queries, traits)?;
        return Ok(vec![tiles::launch(
            Pass::Forward,
            (shape, args.documents.is_some()),
            dtype,
            grid,
            &params,
            traits,
        )]);
    }
    let (tile, bytes) = tile(NAME, shape, args.q.dtype, traits, |rows, keys, size| {
        2 * rows * size + rows * (keys + 1) + 3 * rows + keys * (2 * size + 1)
    })?;
    let grid = grid(NAME, shape, tile[0], Side::Queries)?;
    let launch = Launch::new(
        Name::of(NAME).and("_").and(dtype),
        grid,
        [THREADS, 1, 1],
        &AttentionForwardParams::new(args, tile),
    );
    Ok(vec![launch.with_shared(bytes)])
}

pub(super) fn backward_workspace(args: &AttentionBackward) -> usize {
    let shape = &args.shape;
    shape.sequences * shape.heads * shape.queries * args.q.dtype.accumulator().bytes()
}

/// Sums of rows into the workspace; then the gradients of queries, and those of keys and values. Without queries, only
/// the last are written.
pub(super) fn backward(
    args: &AttentionBackward,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let (shape, dtype) = (
        &args.shape,
        traits.float("attention_backward", args.q.dtype)?,
    );
    if is_empty(shape, Side::Keys) {
        return Ok(Vec::new());
    }
    let slices = [
        args.q, args.k, args.v, args.d_out, args.d_q, args.d_k, args.d_v,
    ];
    let [of_queries, of_keys] = if tiles::serve(shape, &slices) {
        backward_tiles(args, dtype, traits, workspace)?
    } else {
        backward_plain(args, dtype, traits, workspace)?
    };
    if is_empty(shape, Side::Queries) {
        return Ok(vec![of_keys]);
    }
    let delta = delta(args, dtype, traits, workspace);
    Ok(vec![delta, of_queries, of_keys])
}

/// Rows that a lane sums at a time, as in `attention.h`.
const DELTA_ROWS: usize = 4;

fn delta(args: &AttentionBackward, dtype: &str, traits: &DeviceTraits, workspace: u64) -> Launch {
    let shape = &args.shape;
    let sizes = AttentionSizes::new(shape, None, [0, 0]);
    let params = AttentionDeltaParams {
        sizes,
        out: args.out.addr,
        d_out: args.d_out.addr,
        delta: workspace,
    };
    let rows = shape.sequences * shape.queries * shape.heads;
    let lanes = shape.head_size.div_ceil(pack(args.out.dtype));
    let rows_of_warp =
        DELTA_ROWS * traits.warp as usize / lanes.next_power_of_two().min(traits.warp as usize);
    let (grid, block) = warps(rows.div_ceil(rows_of_warp), traits);
    Launch::new(
        Name::of("attention_delta_").and(dtype),
        grid,
        block,
        &params,
    )
}

const QUERIES: &str = Pass::BackwardQueries.name();
const KEYS: &str = Pass::BackwardKeys.name();

fn backward_tiles(
    args: &AttentionBackward,
    dtype: &str,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<[Launch; 2]> {
    let (shape, params) = (
        &args.shape,
        AttentionBackwardParams::new(args, [0, 0], workspace),
    );
    let launch = |pass: Pass, side| {
        let of_block = Unit::of(shape, traits).rows(pass, shape);
        let grid = order::grid(pass.name(), shape, of_block, side, traits)?;
        Ok(tiles::launch(
            pass,
            (shape, args.documents.is_some()),
            dtype,
            grid,
            &params,
            traits,
        ))
    };
    Ok([
        launch(Pass::BackwardQueries, Side::Queries)?,
        launch(Pass::BackwardKeys, Side::Keys)?,
    ])
}

fn backward_plain(
    args: &AttentionBackward,
    dtype: &str,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<[Launch; 2]> {
    let shape = &args.shape;
    let launch = |name: &str, side, (tile, bytes): ([u32; 2], u32)| {
        let (grid, params) = (
            grid(name, shape, tile[0], side)?,
            AttentionBackwardParams::new(args, tile, workspace),
        );
        let launch = Launch::new(
            Name::of(name).and("_").and(dtype),
            grid,
            [THREADS, 1, 1],
            &params,
        );
        Ok(launch.with_shared(bytes))
    };
    let query_tile = tile(QUERIES, shape, args.q.dtype, traits, |rows, keys, size| {
        3 * rows * size + 2 * keys * (size + 1) + rows * (keys + 1) + 2 * rows
    })?;
    let key_tile = tile(KEYS, shape, args.q.dtype, traits, |rows, queries, size| {
        4 * rows * size + 2 * rows * (queries + 1) + 2 * queries * (size + 1) + 2 * queries
    })?;
    Ok([
        launch(QUERIES, Side::Queries, query_tile)?,
        launch(KEYS, Side::Keys, key_tile)?,
    ])
}
