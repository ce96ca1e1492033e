//! The first key that each query meets, where a sequence holds several documents or attention has a window.

use super::{BLOCK, place::Head};
use hal::{RawSlice, kernel::AttentionShape};
use std::ops::Range;

/// The first keys of one sequence's queries.
pub(super) struct FirstKeys<'a> {
    shape: &'a AttentionShape,
    // One row: the place of the first token of each query's document.
    starts: Option<Head<'a, u32>>,
}

impl<'a> FirstKeys<'a> {
    /// # Safety
    /// `starts` is live for as long as `'a`, holds (sequences * queries) u32, and nobody writes it.
    pub(super) unsafe fn of(
        starts: Option<RawSlice>,
        shape: &'a AttentionShape,
        sequence: usize,
    ) -> Self {
        // SAFETY: the caller guarantees the slice.
        let starts = starts.map(|starts| unsafe { Head::of_sequence(starts, shape, sequence) });
        FirstKeys { shape, starts }
    }

    /// The first of the keys from which on the block of queries from `start` on is computed, a multiple of [`BLOCK`]. No
    /// later query meets an earlier key, because documents and windows are in order.
    #[inline(always)]
    pub(super) fn begin(&self, start: usize) -> usize {
        self.first_met(start) / BLOCK * BLOCK
    }

    /// The keys from `begin` on that a query meets, counted from there.
    #[inline(always)]
    pub(super) fn met_from(&self, begin: usize, query: usize) -> Range<usize> {
        let end = self.shape.keys_met(query).saturating_sub(begin);
        self.first_met(query).saturating_sub(begin).min(end)..end
    }

    #[inline(always)]
    fn first_met(&self, query: usize) -> usize {
        let start = self.starts.as_ref().map_or(0, |all| all.row(0)[query]);
        self.shape.first_met(query, start)
    }
}
