//! Rotary positions. C++: `rope.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch, columns,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{
    RawSlice, Result,
    kernel::{Copy2d, Rope},
};

params! {
    struct RopeParams {
        x: u64,
        out: u64,
        rows: u64,
        sequence: u64,
        first_position: u64,
        places: u64,
        heads: u64,
        head_size: u64,
        turned: u64,
        exponent: f64,
        sign: f64,
        factor: f64,
        lowest: f64,
        per_turn: f64,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[RopeParams::LAYOUT];

pub(super) fn rope(args: &Rope, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("rope_").and(traits.float("rope", args.x.dtype)?);
    let half = args.turned / 2;
    if args.rows * args.heads * half == 0 {
        return Ok(Vec::new());
    }
    let stretch = args.frequencies.stretch;
    let params = RopeParams {
        x: args.x.addr,
        out: args.out.addr,
        rows: args.rows as u64,
        sequence: args.sequence as u64,
        first_position: args.first_position as u64,
        places: args.places.map_or(0, |places| places.addr),
        heads: args.heads as u64,
        head_size: args.head_size as u64,
        turned: args.turned as u64,
        exponent: -2.0 * args.frequencies.base.log2() / args.turned as f64,
        sign: if args.backward { -1.0 } else { 1.0 },
        // A factor of 1 leaves every frequency as it is.
        factor: stretch.map_or(1.0, |stretch| stretch.factor),
        lowest: stretch.map_or(0.0, |stretch| stretch.lowest()),
        per_turn: stretch.map_or(0.0, |stretch| stretch.per_turn()),
    };
    let (grid, block) = rows(args.rows, half, pack(args.x.dtype));
    let mut launches = vec![Launch::new(name, grid, block, &params)];
    launches.extend(rest(args, traits)?);
    Ok(launches)
}

/// Copies the part of each head that does not turn. Within the turning kernel, the copy would take registers from every model.
fn rest(args: &Rope, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let columns = args.head_size - args.turned;
    if columns == 0 || args.x.addr == args.out.addr {
        return Ok(Vec::new());
    }
    let of = |slice: RawSlice| RawSlice {
        addr: slice.addr + (args.turned * slice.dtype.bytes()) as u64,
        len: slice.len - args.turned,
        ..slice
    };
    let copy = Copy2d {
        src: of(args.x),
        src_leading: args.head_size,
        dst: of(args.out),
        dst_leading: args.head_size,
        rows: args.rows * args.heads,
        columns,
    };
    columns::copy_2d(&copy, traits)
}
