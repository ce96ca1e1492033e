//! Blocks of matrices, bias and its gradient. C++: `columns.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{blocks, pack, parts, rows},
};
use hal::{
    DType, RawSlice, Result,
    kernel::{AddBias, ColumnSum, Copy2d},
};

params! {
    struct Copy2dParams { src: u64, dst: u64, src_leading: u64, dst_leading: u64, rows: u64, columns: u64, }
    struct AddBiasParams { x: u64, bias: u64, rows: u64, columns: u64, }
    struct ColumnPartsParams { x: u64, partials: u64, rows: u64, columns: u64, rows_of_part: u64, }
    struct AddPartsParams { partials: u64, out: u64, second: u64, beta: f64, columns: u64, parts: u64, part_step: u64, }
}

pub(super) const LAYOUTS: &[Layout] = &[
    Copy2dParams::LAYOUT,
    AddBiasParams::LAYOUT,
    ColumnPartsParams::LAYOUT,
    AddPartsParams::LAYOUT,
];

pub(super) fn copy_2d(args: &Copy2d, _traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let dense = args.columns == args.src_leading && args.columns == args.dst_leading;
    let (num_rows, columns) = if dense {
        (1, args.rows * args.columns)
    } else {
        (args.rows, args.columns)
    };
    if num_rows * columns == 0 {
        return Ok(Vec::new());
    }
    let dtype = args.src.dtype;
    let params = Copy2dParams {
        src: args.src.addr,
        dst: args.dst.addr,
        src_leading: args.src_leading as u64,
        dst_leading: args.dst_leading as u64,
        rows: num_rows as u64,
        columns: columns as u64,
    };
    let (grid, block) = rows(num_rows, columns, pack(dtype));
    Ok(vec![Launch::new(
        Name::of("copy_2d_").and(dtype.bytes()),
        grid,
        block,
        &params,
    )])
}

pub(super) fn add_bias(args: &AddBias, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("add_bias_").and(traits.float("add_bias", args.x.dtype)?);
    let (x, bias) = (args.x.addr, args.bias.addr);
    let params = AddBiasParams {
        x,
        bias,
        rows: args.rows as u64,
        columns: args.columns as u64,
    };
    let (grid, block) = rows(args.rows, args.columns, pack(args.x.dtype));
    let empty = args.rows * args.columns == 0;
    Ok(if empty {
        Vec::new()
    } else {
        vec![Launch::new(name, grid, block, &params)]
    })
}

/// Bytes of the partial sums: `width` accumulators of `dtype` for each part of `num_rows` rows.
pub(super) fn partials_bytes(num_rows: usize, width: usize, dtype: DType) -> usize {
    parts(num_rows).1 * width * dtype.accumulator().bytes()
}

pub(super) fn column_sum_workspace(args: &ColumnSum) -> usize {
    partials_bytes(args.rows, args.columns, args.x.dtype)
}

/// Sums within parts of the rows first, then the parts in order. The order depends on the sizes alone.
pub(super) fn column_sum(
    args: &ColumnSum,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let (columns, dtype) = (args.columns, args.x.dtype);
    let name = Name::of("column_parts_").and(traits.float("column_sum", dtype)?);
    traits.float("column_sum", args.out.dtype)?;
    let (rows_of_part, parts) = parts(args.rows);
    let params = ColumnPartsParams {
        x: args.x.addr,
        partials: workspace,
        rows: args.rows as u64,
        columns: columns as u64,
        rows_of_part: rows_of_part as u64,
    };
    let (grid, block) = rows(parts, columns, pack(dtype));
    let sums = Launch::new(name, grid, block, &params);
    let added = add_parts(
        workspace,
        (args.out, None),
        args.beta,
        columns,
        parts,
        columns,
    );
    Ok(match (args.rows, columns) {
        (_, 0) => Vec::new(),
        (0, _) => vec![added],
        _ => vec![sums, added],
    })
}

/// Runs of parts that a block adds at a time, as in `columns.h`.
const ADDING_RUNS: u32 = 8;

/// Adds `parts` partial sums, `part_step` numbers apart, to `beta` times the `columns` elements of `out`; and those that lie
/// `columns` numbers behind them to a second one.
pub(super) fn add_parts(
    partials: u64,
    (out, second): (RawSlice, Option<RawSlice>),
    beta: f64,
    columns: usize,
    parts: usize,
    part_step: usize,
) -> Launch {
    let params = AddPartsParams {
        partials,
        out: out.addr,
        second: second.map_or(0, |second| second.addr),
        beta,
        columns: columns as u64,
        parts: parts as u64,
        part_step: part_step as u64,
    };
    // Few columns for a block: a matrix has few, and every multiprocessor should get some.
    let (across, outs) = (32, 1 + u32::from(second.is_some()));
    let launch = Launch::new(
        Name::of("add_parts_").and(out.dtype),
        [blocks(columns, across), outs, 1],
        [across as u32, ADDING_RUNS, 1],
        &params,
    );
    let sums = across * ADDING_RUNS as usize;
    launch.with_shared((sums * out.dtype.accumulator().bytes()) as u32)
}
