//! Sums of squares without rounding. C++: `exact_squares.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    squares::{SLICES, SquaresSlice, count_parts, of_parts, over_parts},
};
use hal::{
    DType, RawSlice, Result,
    kernel::{ExactSquares, ExactTotal, Largest},
};

params! {
    struct LargestTotalParams { partials: u64, out: u64, parts: u64, }
    struct ExactSquaresPartsParams {
        largest: u64,
        partials: u64,
        num_slices: u32,
        unused: u32,
        slices: [SquaresSlice; SLICES],
    }
    struct ExactSquaresTotalParams { largest: u64, partials: u64, sums: u64, parts: u64, }
    struct ExactTotalParams { largest: u64, sums: u64, out: u64, }
}

pub(super) const LAYOUTS: &[Layout] = &[
    LargestTotalParams::LAYOUT,
    ExactSquaresPartsParams::LAYOUT,
    ExactSquaresTotalParams::LAYOUT,
    ExactTotalParams::LAYOUT,
];

/// Bytes that a part of the squares leaves: the three sums of its multiples.
const EXACT_BYTES: usize = 24;

fn check_f64(operation: &str, slices: &[RawSlice], traits: &DeviceTraits) -> Result<()> {
    match slices.iter().find(|slice| slice.dtype != DType::F64) {
        Some(slice) => Err(traits.unsupported(operation, slice.dtype)),
        None => Ok(()),
    }
}

pub(super) fn largest_workspace(args: &Largest) -> usize {
    count_parts(&args.slices) * size_of::<f64>()
}

/// The largest of each part, then of all parts and what was there.
pub(super) fn largest(
    args: &Largest,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    check_f64("largest", &[args.out], traits)?;
    let mut launches = of_parts("largest", &args.slices, traits, |table| {
        table.launch_parts("largest_parts", workspace, traits)
    })?;
    let parts = count_parts(&args.slices);
    let params = LargestTotalParams {
        partials: workspace,
        out: args.out.addr,
        parts: parts as u64,
    };
    launches.extend((parts > 0).then(|| over_parts("largest_total", parts, &params, traits)));
    Ok(launches)
}

pub(super) fn exact_squares_workspace(args: &ExactSquares) -> usize {
    count_parts(&args.slices) * EXACT_BYTES
}

/// The multiples of each part, then those of all parts, added to the three sums.
pub(super) fn exact_squares(
    args: &ExactSquares,
    traits: &DeviceTraits,
    workspace: u64,
) -> Result<Vec<Launch>> {
    check_f64("exact_squares", &[args.largest, args.sums], traits)?;
    let mut launches = of_parts("exact_squares", &args.slices, traits, |table| {
        let params = ExactSquaresPartsParams {
            largest: args.largest.addr,
            partials: workspace + (EXACT_BYTES * table.before) as u64,
            num_slices: table.count,
            unused: 0,
            slices: table.slices,
        };
        table.launch("exact_squares_parts", &params, traits)
    })?;
    let parts = count_parts(&args.slices);
    let params = ExactSquaresTotalParams {
        largest: args.largest.addr,
        partials: workspace,
        sums: args.sums.addr,
        parts: parts as u64,
    };
    launches.extend((parts > 0).then(|| over_parts("exact_squares_total", parts, &params, traits)));
    Ok(launches)
}

pub(super) fn exact_total(args: &ExactTotal, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    check_f64("exact_total", &[args.largest, args.sums, args.out], traits)?;
    let params = ExactTotalParams {
        largest: args.largest.addr,
        sums: args.sums.addr,
        out: args.out.addr,
    };
    let name = Name::of("exact_total");
    Ok(vec![Launch::new(name, [1, 1, 1], [1, 1, 1], &params)])
}
