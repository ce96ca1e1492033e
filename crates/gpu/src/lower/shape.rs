//! Grids and blocks.

use super::DeviceTraits;
use hal::{DType, Error, Result};

/// Threads of a block, unless a kernel needs another number.
pub(super) const THREADS: u32 = 256;
/// The most blocks that a grid may have in y and z.
pub(super) const MAX_BLOCKS_Y: usize = 65_535;
/// The most parts of the rows in sums down columns.
const MOST_PARTS: usize = 4096;
/// The most blocks in x that are worth starting; kernels cover the rest in strides.
pub(super) const MAX_BLOCKS_X: usize = 1 << 24;

/// Elements of `dtype` in the 16 bytes that a thread moves at once.
pub(super) fn pack(dtype: DType) -> usize {
    16 / dtype.bytes()
}

/// Blocks for `work` items, `per_block` of them in each.
pub(super) fn blocks(work: usize, per_block: usize) -> u32 {
    work.div_ceil(per_block).clamp(1, MAX_BLOCKS_X) as u32
}

/// Grid and block for a run of `len` elements, `pack` of them for a thread.
pub(super) fn flat(len: usize, pack: usize) -> ([u32; 3], [u32; 3]) {
    (
        [blocks(len, pack * THREADS as usize), 1, 1],
        [THREADS, 1, 1],
    )
}

/// Grid and block for rows of `columns` elements, `pack` of them for a thread: x along a row, y down the rows.
pub(super) fn rows(rows: usize, columns: usize, pack: usize) -> ([u32; 3], [u32; 3]) {
    let packs = columns.div_ceil(pack).max(1);
    let across = packs.next_power_of_two().min(THREADS as usize);
    let down = THREADS as usize / across;
    let grid_y = rows.div_ceil(down).clamp(1, MAX_BLOCKS_Y) as u32;
    (
        [blocks(packs, across), grid_y, 1],
        [across as u32, down as u32, 1],
    )
}

/// Grid and block for rows that take a warp each.
pub(super) fn warps(rows: usize, traits: &DeviceTraits) -> ([u32; 3], [u32; 3]) {
    (
        [blocks(rows, (THREADS / traits.warp) as usize), 1, 1],
        [THREADS, 1, 1],
    )
}

/// Threads for `work` items of one block: whole warps, at most `most`.
pub(super) fn threads(work: usize, most: u32, traits: &DeviceTraits) -> u32 {
    (work.next_power_of_two() as u32).clamp(traits.warp, most)
}

/// Shared memory for a block's sum or maximum: 8 bytes per warp.
pub(super) fn reduction_bytes(threads: u32, traits: &DeviceTraits) -> u32 {
    threads / traits.warp * 8
}

/// `count` as blocks in y or z.
///
/// # Errors
/// [`Error::Invalid`] for more than a grid has.
pub(super) fn blocks_y(operation: &str, what: &str, count: usize) -> Result<u32> {
    if count <= MAX_BLOCKS_Y {
        Ok(count as u32)
    } else {
        Err(Error::invalid(
            operation,
            format!("{count} {what}"),
            format!("at most {MAX_BLOCKS_Y}"),
        ))
    }
}

/// How sums down columns are split: rows per part, and the number of parts. It depends on the number of rows alone.
///
/// A block of its own for each part should give every multiprocessor work, so there are 256 parts, or parts of 64 rows: then the
/// partial sums are still few beside the rows.
pub(super) fn parts(rows: usize) -> (usize, usize) {
    let rows_of_part = rows
        .div_ceil(256)
        .clamp(16, 64)
        .max(rows.div_ceil(MOST_PARTS));
    (rows_of_part, rows.div_ceil(rows_of_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows() {
        for rows in [1, 15, 16, 17, 2047, 2048, 2049, 100_000, 1_000_000] {
            let (rows_of_part, parts) = parts(rows);
            assert!(
                parts <= MOST_PARTS
                    && parts * rows_of_part >= rows
                    && (parts - 1) * rows_of_part < rows,
                "{rows}"
            );
        }
    }

    #[test]
    fn a_block_has_a_power_of_two_across_and_256_threads() {
        for columns in [1, 3, 64, 65, 2048, 51_200] {
            let (grid, block) = rows(1000, columns, 8);
            assert_eq!(block[0] * block[1], THREADS);
            assert!((grid[0] * block[0]) as usize * 8 >= columns);
        }
    }
}
