//! Products of few rows and a matrix that is stored as codes. C++: `quantised_matmul.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{THREADS, blocks},
};
use hal::{
    Error, Result,
    kernel::QuantisedMatmul,
    quantised::{MOST_ROWS, NORMAL, STEP},
};

params! {
    struct QuantisedMatmulParams {
        scales: u64,
        codes: u64,
        a: u64,
        out: u64,
        terms: u64,
        columns: u64,
        first_column: u64,
        blocks: u64,
        rows: u32,
        wide: u32,
        step: f32,
        shares: [f32; NORMAL.len()],
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[QuantisedMatmulParams::LAYOUT];

/// Neighbouring threads of a row of codes, as in `quantised_matmul.h`.
const CODE_LANES: usize = 8;
/// Bytes of codes that a thread reads at once.
const CODE_BYTES: usize = 4;
/// The rows that a block may have. With more, the sums of a thread would exceed its registers.
const ROWS: [usize; 2] = [1, 4];

pub(super) fn quantised_matmul(
    args: &QuantisedMatmul,
    traits: &DeviceTraits,
) -> Result<Vec<Launch>> {
    const NAME: &str = "quantised_matmul";
    let (part, dtype) = (args.part, args.a.dtype);
    let suffix = traits.float(NAME, dtype)?;
    if args.rows > MOST_ROWS {
        let found = format!("{} rows", args.rows);
        return Err(Error::invalid(NAME, found, format!("at most {MOST_ROWS}")));
    }
    let rows = ROWS.into_iter().find(|rows| args.rows <= *rows);
    let rows = rows.unwrap_or(ROWS[ROWS.len() - 1]);
    if args.out.len == 0 {
        return Ok(Vec::new());
    }
    let name = Name::of("quantised_matmul_")
        .and(part.format.name())
        .and("_")
        .and(rows)
        .and("_")
        .and(suffix);
    let params = QuantisedMatmulParams {
        scales: args.stored.addr,
        codes: args.stored.addr + part.first_code() as u64,
        a: args.a.addr,
        out: args.out.addr,
        terms: part.rows as u64,
        columns: part.columns as u64,
        first_column: part.first_column as u64,
        blocks: part.blocks_of_row().len() as u64,
        rows: args.rows as u32,
        wide: (args.out.dtype != dtype).into(),
        step: STEP,
        shares: NORMAL,
        unused: 0,
    };
    let width = CODE_LANES * CODE_BYTES * 8 / part.format.bits();
    let sums = (THREADS / traits.warp) as usize * width * dtype.accumulator().bytes();
    let launch = Launch::new(
        name,
        [
            blocks(part.columns, width),
            args.rows.div_ceil(rows) as u32,
            1,
        ],
        [THREADS, 1, 1],
        &params,
    );
    Ok(vec![
        launch.with_shared((sums + size_of_val(&NORMAL)) as u32),
    ])
}
