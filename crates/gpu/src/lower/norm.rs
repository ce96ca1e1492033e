//! LayerNorm and RMSNorm. C++: `norm.h`, `norm_backward.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    columns::{add_parts, partials_bytes},
    layouts::{Layout, params},
    parts::{MOST_PARTS, PartJoins},
    shape::{blocks, pack, parts, rows, warps},
};
use hal::{
    DType, RawSlice, Result,
    kernel::{
        CombineMoments, Moments, NormKind, NormShape, Normalize, NormalizeBackward, NormalizeSums,
    },
};

params! {
    struct NormSizes { rows: u64, columns: u64, global_columns: f64, epsilon: f64, centred: u32, gain_offset: u32, }
    struct MomentsParams { sizes: NormSizes, x: u64, moments: u64, }
    struct CombineMomentsParams {
        sizes: NormSizes,
        parts: u64,
        moments: u64,
        num_parts: u64,
        joins: [u8; MOST_PARTS],
        widths: [u32; MOST_PARTS],
    }
    struct NormalizeParams { sizes: NormSizes, x: u64, moments: u64, gain: u64, bias: u64, out: u64, }
    struct NormRowSumsParams {
        sizes: NormSizes,
        x: u64,
        moments: u64,
        gain: u64,
        d_out: u64,
        sums: u64,
        statistics: u64,
    }
    struct NormColumnSumsParams {
        sizes: NormSizes,
        x: u64,
        statistics: u64,
        d_out: u64,
        partials: u64,
        rows_of_part: u64,
    }
    struct NormalizeBackwardParams {
        sizes: NormSizes,
        x: u64,
        moments: u64,
        gain: u64,
        d_out: u64,
        sums: u64,
        d_x: u64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    NormSizes::LAYOUT,
    MomentsParams::LAYOUT,
    CombineMomentsParams::LAYOUT,
    NormalizeParams::LAYOUT,
    NormRowSumsParams::LAYOUT,
    NormColumnSumsParams::LAYOUT,
    NormalizeBackwardParams::LAYOUT,
];

/// Threads of a block that joins parts: few, because the nodes that wait lie in shared memory.
const COMBINING: u32 = 64;

impl From<NormShape> for NormSizes {
    fn from(shape: NormShape) -> Self {
        NormSizes {
            rows: shape.rows as u64,
            columns: shape.columns as u64,
            global_columns: shape.global_columns as f64,
            epsilon: shape.epsilon,
            centred: u32::from(shape.kind == NormKind::Layer),
            gain_offset: shape.kind.gain_offset() as u32,
        }
    }
}

/// Rows that a thread normalises at a time, as `norm.h` does.
const ROWS: usize = 4;

/// Grid and block for groups of [`ROWS`] rows.
fn groups(shape: NormShape, dtype: DType) -> ([u32; 3], [u32; 3]) {
    rows(shape.rows.div_ceil(ROWS), shape.columns, pack(dtype))
}

/// The launches; none if the matrix has no element.
pub(super) fn unless_empty(shape: NormShape, launches: Vec<Launch>) -> Vec<Launch> {
    if shape.rows * shape.columns == 0 {
        Vec::new()
    } else {
        launches
    }
}

pub(super) fn moments(args: &Moments, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("norm_moments_").and(traits.float("norm_moments", args.x.dtype)?);
    let params = MomentsParams {
        sizes: args.shape.into(),
        x: args.x.addr,
        moments: args.moments.addr,
    };
    let (grid, block) = warps(args.shape.rows, traits);
    Ok(unless_empty(
        args.shape,
        vec![Launch::new(name, grid, block, &params)],
    ))
}

pub(super) fn combine_moments(args: &CombineMoments, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("norm_combine_").and(traits.accumulator("norm_combine", args.parts.dtype)?);
    let (parts, moments) = (args.parts.addr, args.moments.addr);
    let PartJoins { counts, depth } = PartJoins::new("norm_combine", &args.widths)?;
    let mut params = CombineMomentsParams {
        sizes: args.shape.into(),
        parts,
        moments,
        num_parts: args.widths.len() as u64,
        joins: counts,
        widths: [0; MOST_PARTS],
    };
    for (to, &columns) in params.widths.iter_mut().zip(&args.widths) {
        *to = columns as u32;
    }
    if args.shape.rows * args.widths.len() == 0 {
        return Ok(Vec::new());
    }
    let grid = [blocks(args.shape.rows, COMBINING as usize), 1, 1];
    let launch = Launch::new(name, grid, [COMBINING, 1, 1], &params);
    // A node has two accumulators and a number of columns, which takes as much as one.
    let node = 3 * args.parts.dtype.bytes();
    Ok(vec![
        launch.with_shared((depth * COMBINING as usize * node) as u32),
    ])
}

pub(super) fn normalize(args: &Normalize, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("normalize_").and(traits.float("normalize", args.x.dtype)?);
    let params = NormalizeParams {
        sizes: args.shape.into(),
        x: args.x.addr,
        moments: args.moments.addr,
        gain: args.gain.addr,
        bias: args.bias.map_or(0, |bias| bias.addr),
        out: args.out.addr,
    };
    let (grid, block) = groups(args.shape, args.x.dtype);
    Ok(unless_empty(
        args.shape,
        vec![Launch::new(name, grid, block, &params)],
    ))
}

/// Bytes of the partial sums of columns: for each part of the rows those of the gain's gradient, then those of the bias's.
pub(super) fn column_bytes(shape: NormShape, dtype: DType) -> usize {
    partials_bytes(shape.rows, 2 * shape.columns, dtype)
}

/// Adds the partial sums to the gradients of gain and bias.
pub(super) fn add_column_parts(
    shape: NormShape,
    partials: u64,
    (d_gain, d_bias): (RawSlice, Option<RawSlice>),
    beta: f64,
) -> Option<Launch> {
    let (columns, num_parts) = (shape.columns, parts(shape.rows).1);
    let add = || {
        add_parts(
            partials,
            (d_gain, d_bias),
            beta,
            columns,
            num_parts,
            2 * columns,
        )
    };
    (columns > 0).then(add)
}

/// The partial sums of columns come first.
pub(super) fn normalize_sums_workspace(args: &NormalizeSums) -> usize {
    column_bytes(args.shape, args.x.dtype)
        + 2 * args.shape.rows * args.x.dtype.accumulator().bytes()
}

/// Sums along the rows, which leave the statistics of the rows; sums down the columns in parts; and the sums of the parts.
pub(super) fn normalize_sums(
    args: &NormalizeSums,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let (shape, dtype) = (args.shape, traits.float("normalize_sums", args.x.dtype)?);
    let statistics = workspace + column_bytes(shape, args.x.dtype) as u64;
    let sums = vec![
        row_sums(args, dtype, statistics, traits),
        column_sums(args, dtype, statistics, workspace),
    ];
    let mut launches = unless_empty(shape, sums);
    let gradients = (args.d_gain, args.d_bias);
    launches.extend(add_column_parts(shape, workspace, gradients, args.beta));
    Ok(launches)
}

fn row_sums(args: &NormalizeSums, dtype: &str, statistics: u64, traits: &DeviceTraits) -> Launch {
    let params = NormRowSumsParams {
        sizes: args.shape.into(),
        x: args.x.addr,
        moments: args.moments.addr,
        gain: args.gain.addr,
        d_out: args.d_out.addr,
        sums: args.sums.addr,
        statistics,
    };
    let (grid, block) = warps(args.shape.rows, traits);
    Launch::new(Name::of("norm_row_sums_").and(dtype), grid, block, &params)
}

fn column_sums(args: &NormalizeSums, dtype: &str, statistics: u64, partials: u64) -> Launch {
    let (rows_of_part, num_parts) = parts(args.shape.rows);
    let params = NormColumnSumsParams {
        sizes: args.shape.into(),
        x: args.x.addr,
        statistics,
        d_out: args.d_out.addr,
        partials,
        rows_of_part: rows_of_part as u64,
    };
    let (grid, block) = rows(num_parts, args.shape.columns, pack(args.x.dtype));
    Launch::new(
        Name::of("norm_column_sums_").and(dtype),
        grid,
        block,
        &params,
    )
}

pub(super) fn normalize_backward(
    args: &NormalizeBackward,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let name =
        Name::of("normalize_backward_").and(traits.float("normalize_backward", args.x.dtype)?);
    let params = NormalizeBackwardParams {
        sizes: args.shape.into(),
        x: args.x.addr,
        moments: args.moments.addr,
        gain: args.gain.addr,
        d_out: args.d_out.addr,
        sums: args.sums.addr,
        d_x: args.d_x.addr,
    };
    let (grid, block) = groups(args.shape, args.x.dtype);
    Ok(unless_empty(
        args.shape,
        vec![Launch::new(name, grid, block, &params)],
    ))
}
