//! Dropout. C++: `dropout.h`, `philox.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
    shape::{pack, rows},
};
use hal::{
    Result,
    kernel::Dropout,
    random::{Key, ROUNDS},
};

params! {
    struct RandomKey { seed: u64, sequence: u64, }
    struct RoundKeys { low: [u32; ROUNDS], high: [u32; ROUNDS], }
    struct DropoutParams {
        x: u64,
        out: u64,
        rows: u64,
        columns: u64,
        first_index: u64,
        global_columns: u64,
        key: RandomKey,
        keys: RoundKeys,
        scale: f64,
        threshold: u32,
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] =
    &[RandomKey::LAYOUT, RoundKeys::LAYOUT, DropoutParams::LAYOUT];

impl From<Key> for RoundKeys {
    fn from(key: Key) -> Self {
        let keys = key.round_keys();
        RoundKeys {
            low: keys.map(|[low, _]| low),
            high: keys.map(|[_, high]| high),
        }
    }
}

impl From<Key> for RandomKey {
    fn from(key: Key) -> Self {
        RandomKey {
            seed: key.seed,
            sequence: key.sequence,
        }
    }
}

/// The bound for the upper 24 bits of a word: comparing with it is `uniform < probability` without rounding.
pub(super) fn threshold(probability: f64) -> u32 {
    (probability * f64::from(1 << 24)).ceil() as u32
}

/// Packs of a thread, as in `dropout.h`.
const PACKS: usize = 2;
/// Blocks for each multiprocessor, of which half are resident: on an H200, 23.1 us for 16 Mi numbers of 16 bits, and 24.7 us with a
/// thread for each pair of packs.
const BLOCKS: u32 = 8;

pub(super) fn dropout(args: &Dropout, traits: &DeviceTraits) -> Result<Vec<Launch>> {
    let name = Name::of("dropout_").and(traits.float("dropout", args.x.dtype)?);
    let region = args.region;
    if region.rows * region.columns == 0 {
        return Ok(Vec::new());
    }
    // Rows that are contiguous in the global matrix form one row, whose packs are all full.
    let whole = region.columns == region.global_columns;
    let (num_rows, columns) = if whole {
        (1, region.rows * region.columns)
    } else {
        (region.rows, region.columns)
    };
    let params = DropoutParams {
        x: args.x.addr,
        out: args.out.addr,
        rows: num_rows as u64,
        columns: columns as u64,
        first_index: (region.first_row * region.global_columns + region.first_column) as u64,
        global_columns: region.global_columns as u64,
        key: args.key.into(),
        keys: args.key.into(),
        scale: 1.0 / (1.0 - args.probability),
        threshold: threshold(args.probability),
        unused: 0,
    };
    let (grid, block) = rows(num_rows, columns, PACKS * pack(args.x.dtype).max(4));
    let most = BLOCKS * traits.multiprocessors;
    let across = grid[0].min(most);
    let grid = [across, grid[1].min((most / across).max(1)), 1];
    Ok(vec![Launch::new(name, grid, block, &params)])
}
