//! The norm of all gradients and the factor that clips them. C++: `squares.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{THREADS, reduction_bytes, threads},
};
use bytemuck::{NoUninit, Zeroable};
use hal::{
    DType, RawSlice, Result,
    kernel::{ClipScale, SumSquares},
};

/// Elements of one slice whose squares make one partial sum.
const PART: usize = 32_768;
/// Slices in the arguments of one launch.
pub(super) const SLICES: usize = 128;

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

/// Parts of all slices.
pub(super) fn count_parts(slices: &[RawSlice]) -> usize {
    slices.iter().map(parts).sum()
}

pub(super) fn sum_squares_workspace(args: &SumSquares) -> usize {
    count_parts(&args.slices) * size_of::<f64>()
}

pub(super) fn sum_squares(
    args: &SumSquares,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    let mut launches = of_parts("sum_squares", &args.slices, traits, |table| {
        table.launch_parts("squares_parts", workspace, traits)
    })?;
    let parts = count_parts(&args.slices);
    launches.extend((parts > 0).then(|| total(args, workspace, parts, traits)));
    Ok(launches)
}

/// The slices of one launch, as its arguments hold them.
pub(super) struct SliceTable {
    pub(super) slices: [SquaresSlice; SLICES],
    pub(super) count: u32,
    /// Parts of the slices of earlier launches.
    pub(super) before: usize,
    /// Parts of these.
    pub(super) blocks: u32,
}

/// As many launches as the slices need, none without elements; `launch` makes one.
pub(super) fn of_parts(
    operation: &str,
    slices: &[RawSlice],
    traits: &DeviceTraits,
    launch: impl Fn(&SliceTable) -> Launch,
) -> Result<Vec<Launch>> {
    for slice in slices {
        traits.float(operation, slice.dtype)?;
    }
    let filled = slices.iter().filter(|slice| slice.len > 0);
    let filled: Vec<RawSlice> = filled.copied().collect();
    let mut before = 0;
    let tables = filled.chunks(SLICES).map(|chunk| {
        let table = SliceTable::new(chunk, before);
        before += table.blocks as usize;
        launch(&table)
    });
    Ok(tables.collect())
}

impl SliceTable {
    fn new(slices: &[RawSlice], before: usize) -> SliceTable {
        let mut table = SliceTable {
            slices: Zeroable::zeroed(),
            count: slices.len() as u32,
            before,
            blocks: 0,
        };
        for (entry, slice) in table.slices.iter_mut().zip(slices) {
            *entry = SquaresSlice {
                x: slice.addr,
                len: slice.len as u64,
                first_block: table.blocks,
                dtype: code(slice.dtype),
            };
            table.blocks += parts(slice) as u32;
        }
        table
    }

    /// A launch with a block for each part.
    pub(super) fn launch(
        &self,
        name: &str,
        params: &impl NoUninit,
        traits: &DeviceTraits,
    ) -> Launch {
        let grid = [self.blocks, 1, 1];
        let launch = Launch::new(Name::of(name), grid, [THREADS, 1, 1], params);
        launch.with_shared(reduction_bytes(THREADS, traits))
    }

    /// The launch of a function that writes a double for each part.
    pub(super) fn launch_parts(&self, name: &str, partials: u64, traits: &DeviceTraits) -> Launch {
        let params = SquaresPartsParams {
            partials: partials + 8 * self.before as u64,
            num_slices: self.count,
            unused: 0,
            slices: self.slices,
        };
        self.launch(name, &params, traits)
    }
}

fn total(args: &SumSquares, partials: u64, parts: usize, traits: &DeviceTraits) -> Launch {
    let params = SquaresTotalParams {
        partials,
        out: args.out.addr,
        parts: parts as u64,
    };
    over_parts("squares_total", parts, &params, traits)
}

/// The launch of one block, whose threads share the parts.
pub(super) fn over_parts(
    name: &str,
    parts: usize,
    params: &impl NoUninit,
    traits: &DeviceTraits,
) -> Launch {
    let threads = threads(parts, 512, traits);
    let launch = Launch::new(Name::of(name), [1, 1, 1], [threads, 1, 1], params);
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
