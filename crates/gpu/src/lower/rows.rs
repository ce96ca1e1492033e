//! Sums of rows, and softmax. C++: `rows.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{THREADS, blocks, pack, reduction_bytes, threads, warps},
};
use hal::{
    DType, Result,
    kernel::{RowSum, Softmax, SoftmaxBackward},
};

params! {
    struct RowSumParams { x: u64, out: u64, rows: u64, columns: u64, }
    struct SoftmaxParams { x: u64, out: u64, rows: u64, columns: u64, log: u32, unused: u32, }
    struct SoftmaxBackwardParams {
        out: u64,
        d_out: u64,
        d_x: u64,
        rows: u64,
        columns: u64,
        log: u32,
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    RowSumParams::LAYOUT,
    SoftmaxParams::LAYOUT,
    SoftmaxBackwardParams::LAYOUT,
];

pub(super) fn row_sum(args: &RowSum, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("row_sum_").and(traits.float("row_sum", args.x.dtype)?);
    if args.rows == 0 {
        return Ok(Vec::new());
    }
    let params = RowSumParams {
        x: args.x.addr,
        out: args.out.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
    };
    let (grid, block) = warps(args.rows, traits);
    Ok(vec![Launch::new(name, grid, block, &params)])
}

/// One launch with one block per row; none without elements.
fn blocks_of_rows(
    name: Name,
    [rows, columns]: [usize; 2],
    dtype: DType,
    params: &impl bytemuck::NoUninit,
    traits: &DeviceTraits,
) -> Vec<Launch> {
    if rows * columns == 0 {
        return Vec::new();
    }
    let threads = threads(columns.div_ceil(pack(dtype)), THREADS, traits);
    let launch = Launch::new(name, [blocks(rows, 1), 1, 1], [threads, 1, 1], params);
    vec![launch.with_shared(reduction_bytes(threads, traits))]
}

pub(super) fn softmax(args: &Softmax, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let dtype = args.x.dtype;
    let name = Name::of("softmax_").and(traits.float("softmax", dtype)?);
    let params = SoftmaxParams {
        x: args.x.addr,
        out: args.out.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
        log: args.log.into(),
        unused: 0,
    };
    let sizes = [args.rows, args.columns];
    Ok(blocks_of_rows(name, sizes, dtype, &params, traits))
}

pub(super) fn softmax_backward(
    args: &SoftmaxBackward,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let dtype = args.out.dtype;
    let name = Name::of("softmax_backward_").and(traits.float("softmax_backward", dtype)?);
    let params = SoftmaxBackwardParams {
        out: args.out.addr,
        d_out: args.d_out.addr,
        d_x: args.d_x.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
        log: args.log.into(),
        unused: 0,
    };
    let sizes = [args.rows, args.columns];
    Ok(blocks_of_rows(name, sizes, dtype, &params, traits))
}
