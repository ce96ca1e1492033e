//! Where pieces of any length are in a file, as they come and go.

use crate::walk::len;
use std::{collections::BTreeMap, ops::Range};

/// Places by the numbers of their pieces. A place is used again for pieces of its length.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    places: Vec<Range<u64>>,
    // Numbers of the pieces that hold nothing, by their length.
    free: BTreeMap<usize, Vec<usize>>,
}

impl Extents {
    /// The number of a piece of this many bytes, which is a new one at the end if none of that length is free.
    pub(crate) fn take(&mut self, bytes: usize) -> usize {
        let free = self.free.get_mut(&bytes).and_then(Vec::pop);
        free.unwrap_or_else(|| {
            let start = self.end();
            self.places.push(start..start + bytes as u64);
            self.places.len() - 1
        })
    }

    /// Frees the place of a piece.
    pub(crate) fn release(&mut self, piece: usize) {
        let bytes = len(&self.places[piece]);
        self.free.entry(bytes).or_default().push(piece);
    }

    /// Where a piece is.
    pub(crate) fn place(&self, piece: usize) -> Range<u64> {
        self.places[piece].clone()
    }

    /// The end of the last place.
    pub(crate) fn end(&self) -> u64 {
        self.places.last().map_or(0, |last| last.end)
    }
}
