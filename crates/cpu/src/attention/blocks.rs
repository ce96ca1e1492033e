//! The pieces of the causal triangle that are computed, and the memory for them.

use super::{BLOCK, GROUP};
use std::ops::Range;

/// The pieces of a block of `count` queries from `start` on: rows counted from `start`, and keys.
///
/// Keys before the block meet all its rows, [`BLOCK`] keys at a time. On the diagonal, each [`GROUP`] of rows
/// meets the keys from `start` up to its own last one. Pieces with the first keys come first.
#[inline(always)]
pub(super) fn pieces(
    start: usize,
    count: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let before = (0..start)
        .step_by(BLOCK)
        .map(move |key| (0..count, key..key + BLOCK));
    let diagonal = (0..count)
        .step_by(GROUP)
        .map(move |row| (row..row + GROUP, start..start + row + GROUP));
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

    #[test]
    fn pieces_cover_the_triangle_once() {
        let tokens = 144;
        let mut covered = vec![0; tokens * tokens];
        for start in (0..tokens).step_by(BLOCK) {
            for (rows, keys) in pieces(start, BLOCK.min(tokens - start)) {
                for (row, key) in rows.flat_map(|row| keys.clone().map(move |key| (row, key))) {
                    covered[(start + row) * tokens + key] += 1;
                }
            }
        }
        for (query, key) in (0..tokens).flat_map(|query| (0..tokens).map(move |key| (query, key))) {
            let times = covered[query * tokens + key];
            assert!(
                if key <= query { times == 1 } else { times <= 1 },
                "query {query}, key {key}: {times} times"
            );
        }
    }
}
