//! The pairs of queries and keys that are computed, in pieces, and the memory for them.

use super::{BLOCK, GROUP, pack::padded};
use hal::kernel::AttentionShape;
use std::ops::Range;

/// The end of the keys that are computed for query `query`: one for all queries of its [`GROUP`], a multiple of it.
///
/// Scores from the query's own last key on must become weights of 0.
#[inline(always)]
pub(super) fn keys_end(shape: &AttentionShape, query: usize) -> usize {
    padded(shape.keys_met(query / GROUP * GROUP + GROUP - 1))
}

/// The pieces of a block of `count` queries from `start` on, both multiples of [`GROUP`], on the keys from `begin` on, a
/// multiple of [`BLOCK`]: rows counted from `start`, and keys.
///
/// Keys come in blocks of [`BLOCK`], counted from the first key held. So the sums of a query over its keys have the same
/// order wherever its sequence of queries is cut. All rows meet a block together, if all meet every key of it;
/// otherwise each [`GROUP`] of rows meets those up to [`keys_end`]. Pieces with the first keys come first.
#[inline(always)]
pub(super) fn pieces(
    shape: &AttentionShape,
    begin: usize,
    [start, count]: [usize; 2],
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let shared = (shape.keys_met(start) / BLOCK * BLOCK).max(begin);
    let end = keys_end(shape, start + count - 1);
    let before = (begin..shared)
        .step_by(BLOCK)
        .map(move |key| (0..count, key..key + BLOCK));
    let ends = move |row| keys_end(shape, start + row);
    let diagonal = (shared..end).step_by(BLOCK).flat_map(move |key| {
        (0..count)
            .step_by(GROUP)
            .map(move |row| (row..row + GROUP, key..ends(row).min(key + BLOCK)))
            .filter(|(_, keys)| !keys.is_empty())
    });
    before.chain(diagonal)
}

/// Hands out parts of a thread's memory, one after another.
pub(super) struct ScratchSlices<'a, R>(pub(super) &'a mut [R]);

impl<'a, R> ScratchSlices<'a, R> {
    /// The next `len` elements.
    pub(super) fn next(&mut self, len: usize) -> &'a mut [R] {
        let (part, rest) = std::mem::take(&mut self.0).split_at_mut(len);
        self.0 = rest;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(shape: &AttentionShape, begin: usize) {
        let (rows, columns) = (padded(shape.queries), padded(shape.keys));
        let mut covered = vec![0; rows * columns];
        for start in (0..rows).step_by(BLOCK) {
            for (rows, keys) in pieces(shape, begin, [start, BLOCK.min(rows - start)]) {
                for (row, key) in rows.flat_map(|row| keys.clone().map(move |key| (row, key))) {
                    covered[(start + row) * columns + key] += 1;
                }
            }
        }
        for (query, key) in (0..shape.queries).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let (times, end) = (covered[query * columns + key], keys_end(shape, query));
            let meets = begin <= key && key < end;
            assert_eq!(times, i32::from(meets), "{shape:?}: {query}, {key}");
            assert!(shape.keys_met(query) <= end, "{shape:?}: {query}");
        }
    }

    #[test]
    fn pieces_cover_every_pair_that_meets_once() {
        for (queries, keys, first_query) in [
            (144, 144, 0),
            (80, 200, 37),
            (70, 200, 64),
            (30, 100, 99),
            (130, 50, 3),
            (20, 70, 1000),
            (1, 1, usize::MAX),
        ] {
            let shape = AttentionShape {
                queries,
                keys,
                first_query,
                ..AttentionShape::causal(1, 0, [1, 1, 1])
            };
            for begin in [0, BLOCK, 3 * BLOCK, 100 * BLOCK] {
                covers(&shape, begin);
            }
        }
    }
}
