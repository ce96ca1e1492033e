//! Dropout with the generator that every vendor shares.

use super::{
    block::{GRAIN, split},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{Dropout, elementwise::Region},
    random::Key,
};
use std::ops::Range;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn dropout(args: &Dropout, pool: &Pool) -> Result<()> {
    dispatch!("dropout", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, out] = unsafe { Shared::<T>::all([args.x, args.out]) };
        drop_elements(x, out, args, pool);
        Ok(())
    })
}

fn drop_elements<T: Element>(x: Shared<T>, out: Shared<T>, args: &Dropout, pool: &Pool) {
    let region = merge_rows(args.region);
    let (threshold, scale) = (
        threshold(args.probability),
        T::Acc::of(1.0 / (1.0 - args.probability)),
    );
    split(
        pool,
        region.rows * region.columns,
        GRAIN,
        #[inline(always)]
        |range| {
            pieces(
                region,
                range,
                #[inline(always)]
                |local, global, len| {
                    let words = words(args.key, global / BLOCK as u64);
                    let skip = (global % BLOCK as u64) as usize;
                    let mut values = x.load::<T::Acc>(local, len);
                    for i in 0..len {
                        let kept = values[i] * scale;
                        values[i] = if words[skip + i] >> 8 < threshold {
                            T::Acc::ZERO
                        } else {
                            kept
                        };
                    }
                    out.store(local, len, values);
                },
            )
        },
    );
}

/// The same elements as one row, if local rows are contiguous in the global matrix.
fn merge_rows(region: Region) -> Region {
    if region.columns == region.global_columns && region.first_column == 0 {
        let first_column = region.first_row * region.global_columns;
        Region {
            rows: 1,
            columns: region.rows * region.columns,
            first_row: 0,
            first_column,
            ..region
        }
    } else {
        region
    }
}

/// The smallest upper 24 bits that keep an element: `word >> 8 < threshold` exactly when `unit(word) < probability`.
fn threshold(probability: f64) -> u32 {
    (probability * 16_777_216.0).ceil() as u32
}

/// Runs `body(local index, global index, len)` on the local elements of `range`, split at the ends of rows and
/// at the starts of blocks of global indices.
#[inline(always)]
fn pieces(region: Region, range: Range<usize>, body: impl Fn(usize, u64, usize)) {
    let mut local = range.start;
    while local < range.end {
        let (row, column) = (local / region.columns, local % region.columns);
        let end = range.end.min(local + region.columns - column);
        let global = (region.first_row + row) as u64 * region.global_columns as u64;
        let mut global = global + (region.first_column + column) as u64;
        while local < end {
            let room = BLOCK - (global % BLOCK as u64) as usize;
            let len = room.min(end - local);
            // Separate, so that the full block is compiled with its length as a constant.
            if len == BLOCK {
                body(local, global, BLOCK)
            } else {
                body(local, global, len)
            }
            (local, global) = (local + len, global + len as u64);
        }
    }
}

const QUADS: usize = BLOCK / 4;

/// The random words of the indices of a block, as [`Key::block`] defines them, computed for all its quadruples at once.
#[inline(always)]
fn words(key: Key, block: u64) -> [u32; BLOCK] {
    let first = block * QUADS as u64;
    let mut counter = [
        [0; QUADS],
        [0; QUADS],
        [key.sequence; QUADS],
        [key.sequence >> 32; QUADS],
    ];
    let [low, high, ..] = &mut counter;
    for i in 0..QUADS {
        low[i] = first + i as u64;
        high[i] = low[i] >> 32;
    }
    for round_key in key.round_keys() {
        counter = round(counter, round_key);
    }
    let mut words = [0; BLOCK];
    for i in 0..BLOCK {
        words[i] = counter[i % 4][i / 4] as u32;
    }
    words
}

// Words are kept in the lower halves of u64, with anything in the upper halves, because vector multiplications
// take and return them this way.
#[inline(always)]
fn round(counter: [[u64; QUADS]; 4], key: [u32; 2]) -> [[u64; QUADS]; 4] {
    let mut next = [[0u64; QUADS]; 4];
    for i in 0..QUADS {
        let a = (counter[0][i] & 0xffff_ffff) * 0xD251_1F53;
        let b = (counter[2][i] & 0xffff_ffff) * 0xCD9E_8D57;
        next[0][i] = (b >> 32) ^ counter[1][i] ^ u64::from(key[0]);
        next[1][i] = b;
        next[2][i] = (a >> 32) ^ counter[3][i] ^ u64::from(key[1]);
        next[3][i] = a;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::random::unit;

    #[test]
    fn words_are_those_of_the_shared_generator() {
        let key = Key {
            seed: 0x1234_5678_9abc_def0,
            sequence: 0xfeed_beef_0bad_cafe,
        };
        for block in [0u64, 1, 77, u64::from(u32::MAX), u64::from(u32::MAX) + 5] {
            let expected: Vec<u32> = (0..BLOCK as u64)
                .map(|i| key.word(block * BLOCK as u64 + i))
                .collect();
            assert_eq!(words(key, block).to_vec(), expected, "block {block}");
        }
    }

    #[test]
    fn the_threshold_compares_as_the_uniform_number_does() {
        for probability in [0.0, 0.1, 0.5, 0.3, 1.0 / 3.0, 0.999_999_99] {
            let threshold = threshold(probability);
            for upper in
                [0, threshold.saturating_sub(1), threshold, threshold + 1].map(|u| u.min(0xff_ffff))
            {
                let drops = f64::from(unit(upper << 8)) < probability;
                assert_eq!(upper < threshold, drops, "{upper} of {probability}");
            }
        }
    }
}
