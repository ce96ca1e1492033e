//! Tracks which ranks read the memory of others, so that a rank that fails does not free memory that is being read.

use crate::event::Point;
use std::{collections::BTreeMap, sync::Arc};

/// One rank's reads for one run: from before it takes the posts until the device has run the reads.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reading {
    rank: usize,
    number: u64,
}

/// The readings of a group that may not be over yet.
#[derive(Debug, Default)]
pub(super) struct Readings {
    count: u64,
    // Each with the point behind which its reads have run, once all of them are queued.
    open: BTreeMap<Reading, Option<Arc<Point>>>,
}

impl Readings {
    /// Opens a reading, and drops those of the same rank that are over.
    pub(super) fn begin(&mut self, rank: usize) -> Reading {
        self.open
            .retain(|reading, end| reading.rank != rank || !is_over(end.as_deref()));
        self.count += 1;
        let number = self.count;
        self.open.insert(Reading { rank, number }, None);
        Reading { rank, number }
    }

    /// Records that all its reads are queued. Without a point, none was queued or the device has failed.
    pub(super) fn end(&mut self, reading: Reading, end: Option<Arc<Point>>) {
        match end {
            Some(point) => self.open.insert(reading, Some(point)),
            None => self.open.remove(&reading),
        };
    }

    /// Whether all reads have run.
    pub(super) fn are_over(&mut self) -> bool {
        self.open.retain(|_, end| !is_over(end.as_deref()));
        self.open.is_empty()
    }
}

// A device that cannot answer has failed, and no longer reads.
fn is_over(end: Option<&Point>) -> bool {
    end.is_some_and(|point| point.is_complete().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_open_until_it_is_ended() {
        let mut readings = Readings::default();
        let (first, second) = (readings.begin(0), readings.begin(1));
        readings.end(first, None);
        assert!(!readings.are_over());
        readings.end(second, None);
        assert!(readings.are_over());
    }
}
