//! The order in which blocks of attention start. C++: `place_of_block` in `attention.h`.
//!
//! A causal mask leaves the blocks of a head with unequal work. A device starts blocks in the order of their numbers, so those with the
//! most work have the lowest: else one of them begins when all others have ended. (Counted on an H200 with head after head: a
//! tenth of the time of the multiprocessors.) But blocks of one head share its keys and values, which other heads drive out of the
//! cache. So this is the order within a group of heads whose keys and values fit into it.

use super::{
    DeviceTraits,
    shape::{MAX_BLOCKS_X, blocks, blocks_y},
};
use hal::{Result, kernel::AttentionShape};

/// The side of the scores whose rows blocks own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Queries,
    Keys,
}

impl Side {
    /// Rows per sequence, and their heads.
    pub(super) fn rows(self, shape: &AttentionShape) -> [usize; 2] {
        match self {
            Side::Queries => [shape.queries, shape.heads],
            Side::Keys => [shape.keys, shape.kv_heads],
        }
    }

    fn other(self) -> Side {
        match self {
            Side::Queries => Side::Keys,
            Side::Keys => Side::Queries,
        }
    }
}

/// Bytes of the other side's rows that stay in a cache while a group runs: less than half of the cache of an A100 or H100, and half of
/// that of an MI250X, whose warps have 64 lanes.
fn cached(traits: &DeviceTraits) -> usize {
    if traits.warp == 64 { 4 << 20 } else { 16 << 20 }
}

/// The grid: blocks of a group of heads, groups, sequences.
pub(super) fn grid(
    operation: &str,
    shape: &AttentionShape,
    rows_of_block: u32,
    side: Side,
    traits: &DeviceTraits,
) -> Result<[u32; 3]> {
    let [rows, heads] = side.rows(shape);
    let of_head = rows.div_ceil(rows_of_block as usize).max(1);
    let group = group(shape, side, of_head, cached(traits));
    Ok([
        blocks(group * of_head, 1),
        blocks_y(operation, "heads", heads / group)?,
        blocks_y(operation, "sequences", shape.sequences)?,
    ])
}

/// Heads of a group: as many as share a cache of that size, and divide all heads evenly.
fn group(shape: &AttentionShape, side: Side, blocks_of_head: usize, cached: usize) -> usize {
    let ([_, heads], [others, other_heads]) = (side.rows(shape), side.other().rows(shape));
    // Two matrices of 16-bit elements.
    let bytes = 4 * others * shape.head_size * other_heads / heads.max(1);
    let fits = |group: &usize| {
        heads.is_multiple_of(*group)
            && group * bytes <= cached
            && group * blocks_of_head <= MAX_BLOCKS_X
    };
    (1..=heads).rev().find(fits).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(queries: usize, heads: usize, kv_heads: usize) -> AttentionShape {
        AttentionShape::causal(1, queries, [heads, kv_heads, 128])
    }

    #[test]
    fn heads_of_a_group_share_a_cache() {
        for (queries, heads, kv_heads, side, expected) in [
            // A head's keys and values take 1 MiB.
            (2048, 16, 16, Side::Queries, 16),
            (2048, 24, 24, Side::Queries, 12),
            (2048, 32, 8, Side::Queries, 32),
            // Eight query heads with their gradients for each key head.
            (2048, 16, 2, Side::Keys, 2),
            (2048, 32, 8, Side::Keys, 4),
            (65536, 16, 16, Side::Queries, 1),
            (1 << 20, 13, 13, Side::Keys, 1),
        ] {
            let found = group(&shape(queries, heads, kv_heads), side, 8, 16 << 20);
            assert_eq!(
                found, expected,
                "{queries} queries, {heads} of {kv_heads} heads"
            );
        }
    }
}
