//! Cross-entropy over a sharded vocabulary. C++: `loss.h`, `peak.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    parts::{MOST_PARTS, PartJoins},
    shape::{THREADS, blocks, pack, reduction_bytes, rows, threads},
};
use hal::{
    Result,
    kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics},
};

params! {
    struct SoftmaxStatisticsParams {
        logits: u64,
        targets: u64,
        statistics: u64,
        rows: u64,
        columns: u64,
        held: u64,
        first_column: u64,
        leaf: u32,
        unused: u32,
    }
    struct CombineSoftmaxParams {
        parts: u64,
        targets: u64,
        log_sum_exp: u64,
        loss: u64,
        num_parts: u64,
        rows: u64,
        rows_of_run: u64,
        scale: f64,
        joins: [u8; MOST_PARTS],
    }
    struct CrossEntropyBackwardParams {
        logits: u64,
        targets: u64,
        log_sum_exp: u64,
        d_loss: u64,
        rows: u64,
        rows_of_run: u64,
        columns: u64,
        held: u64,
        first_column: u64,
        scale: f64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[
    SoftmaxStatisticsParams::LAYOUT,
    CombineSoftmaxParams::LAYOUT,
    CrossEntropyBackwardParams::LAYOUT,
];

/// Packs that a lane reads at once for the statistics, as `peak.h` has it.
const CHUNKS: usize = 8;

/// The local columns that are not padding.
fn held(first_column: usize, columns: usize, vocabulary: usize) -> u64 {
    vocabulary.saturating_sub(first_column).min(columns) as u64
}

pub(super) fn softmax_statistics(
    args: &SoftmaxStatistics,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let dtype = args.logits.dtype;
    let name = Name::of("softmax_statistics_").and(traits.float("softmax_statistics", dtype)?);
    if args.rows == 0 {
        return Ok(Vec::new());
    }
    let params = SoftmaxStatisticsParams {
        logits: args.logits.addr,
        targets: args.targets.addr,
        statistics: args.statistics.addr,
        rows: args.rows as u64,
        columns: args.columns as u64,
        held: held(args.first_column, args.columns, args.vocabulary),
        first_column: args.first_column as u64,
        leaf: args.leaf as u32,
        unused: 0,
    };
    // Few warps in a block, which share at most as many segments of a row as a warp has lanes.
    let packs = args.columns.div_ceil(pack(dtype));
    let threads = threads(packs.div_ceil(CHUNKS), THREADS / 2, traits);
    let launch = Launch::new(name, [blocks(args.rows, 1), 1, 1], [threads, 1, 1], &params);
    let nodes = traits.warp as usize * 2 * dtype.accumulator().bytes();
    Ok(vec![launch.with_shared(nodes as u32)])
}

pub(super) fn combine_softmax(args: &CombineSoftmax, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name =
        Name::of("softmax_combine_").and(traits.accumulator("softmax_combine", args.parts.dtype)?);
    if args.rows * args.widths.len() == 0 {
        return Ok(Vec::new());
    }
    let PartJoins { counts, depth } = PartJoins::new("softmax_combine", &args.widths)?;
    let params = CombineSoftmaxParams {
        parts: args.parts.addr,
        targets: args.targets.addr,
        log_sum_exp: args.log_sum_exp.addr,
        loss: args.loss.addr,
        num_parts: args.widths.len() as u64,
        rows: args.rows as u64,
        rows_of_run: (args.rows / args.runs.max(1)) as u64,
        scale: args.scale,
        joins: counts,
    };
    // Fewer for wider numbers, whose nodes wait in shared memory. The sum of a run is added in an order that follows from
    // this number, which must therefore depend on nothing that a grid changes.
    let most = 1024 / args.parts.dtype.bytes() as u32;
    let threads = threads(args.rows / args.runs, most, traits);
    let grid = [blocks(args.runs, 1), 1, 1];
    let launch = Launch::new(name, grid, [threads, 1, 1], &params);
    let nodes = depth * threads as usize * 2 * args.parts.dtype.bytes();
    Ok(vec![launch.with_shared(
        reduction_bytes(threads, traits) + nodes as u32,
    )])
}

pub(super) fn cross_entropy_backward(
    args: &CrossEntropyBackward,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    let dtype = args.logits.dtype;
    let name =
        Name::of("cross_entropy_backward_").and(traits.float("cross_entropy_backward", dtype)?);
    if args.rows * args.columns == 0 {
        return Ok(Vec::new());
    }
    let params = CrossEntropyBackwardParams {
        logits: args.logits.addr,
        targets: args.targets.addr,
        log_sum_exp: args.log_sum_exp.addr,
        d_loss: args.d_loss.addr,
        rows: args.rows as u64,
        rows_of_run: (args.rows / args.runs.max(1)) as u64,
        columns: args.columns as u64,
        held: held(args.first_column, args.columns, args.vocabulary),
        first_column: args.first_column as u64,
        scale: args.scale,
    };
    // A thread reads two packs of a row at a time.
    let (grid, block) = rows(args.rows, args.columns, 2 * pack(dtype));
    Ok(vec![Launch::new(name, grid, block, &params)])
}
