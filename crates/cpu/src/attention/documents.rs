//! The first key that each query meets, where a sequence holds several documents.

use super::{BLOCK, place::Head};
use hal::{RawSlice, kernel::AttentionShape};
use std::ops::Range;

/// The documents of one sequence.
pub(super) struct Documents<'a> {
    shape: &'a AttentionShape,
    // One row: the place of the first token of each query's document.
    starts: Option<Head<'a, u32>>,
}

impl<'a> Documents<'a> {
    /// # Safety
    /// `starts` is live for as long as `'a`, holds (sequences * queries) u32, and nobody writes it.
    pub(super) unsafe fn of(
        starts: Option<RawSlice>,
        shape: &'a AttentionShape,
        sequence: usize,
    ) -> Self {
        // SAFETY: the caller guarantees the slice.
        let starts = starts.map(|starts| unsafe { Head::of_sequence(starts, shape, sequence) });
        Documents { shape, starts }
    }

    /// The first of the keys from which on the block of queries from `start` on is computed, a multiple of [`BLOCK`]. No
    /// later query meets an earlier key, because documents are in order.
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
        match &self.starts {
            Some(starts) => self.shape.first_met(query, starts.row(0)[query]),
            None => 0,
        }
    }
}
