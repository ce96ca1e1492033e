//! What quantised weights stand for. C++: `quantised.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{flat, pack},
};
use hal::{
    Result,
    kernel::Dequantise,
    quantised::{NORMAL, Quantised, STEP},
};

params! {
    struct DequantiseParams {
        scales: u64,
        codes: u64,
        out: u64,
        len: u64,
        columns: u64,
        first_column: u64,
        blocks: u64,
        step: f32,
        shares: [f32; NORMAL.len()],
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[DequantiseParams::LAYOUT];

pub(super) fn dequantise(args: &Dequantise, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let (part, dtype) = (args.part, args.out.dtype);
    let name = Name::of("dequantise_")
        .and(part.format.name())
        .and("_")
        .and(traits.float("dequantise", dtype)?);
    if args.out.len == 0 {
        return Ok(Vec::new());
    }
    let params = DequantiseParams {
        scales: args.stored.addr,
        codes: args.stored.addr + part.first_code() as u64,
        out: args.out.addr,
        len: args.out.len as u64,
        columns: part.columns as u64,
        first_column: part.first_column as u64,
        blocks: part.blocks_of_row().len() as u64,
        step: STEP,
        shares: NORMAL,
        unused: 0,
    };
    let (grid, block) = flat(args.out.len, pack(dtype));
    let launch = Launch::new(name, grid, block, &params);
    Ok(vec![match part.format {
        Quantised::Int8 => launch,
        Quantised::Nf4 => launch.with_shared(size_of_val(&NORMAL) as u32),
    }])
}
