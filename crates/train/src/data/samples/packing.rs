//! Which samples share a row.

use std::collections::BTreeMap;
use std::ops::Range;

/// The samples of each row, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct Packing {
    /// Where each row begins in `samples`, and where the last ends.
    starts: Vec<usize>,
    samples: Vec<u32>,
}

impl Packing {
    /// Lays samples of these lengths, at least one of them, into rows of `context`, the longest first, each into the fullest
    /// row in which it has room (best fit decreasing): no more than 11/9 of the fewest possible rows and one more (Johnson,
    /// "Near-optimal bin packing algorithms", 1973), and a sample is never cut.
    ///
    /// # Cost
    /// n log n for n samples.
    pub(in crate::data) fn new(lengths: &[usize], context: usize) -> Packing {
        let mut longest_first: Vec<u32> = (0..lengths.len() as u32).collect();
        longest_first.sort_by_key(|sample| std::cmp::Reverse(lengths[*sample as usize]));
        let mut rows: Vec<Vec<u32>> = Vec::new();
        // Rows by their room.
        let mut with_room = BTreeMap::<usize, Vec<usize>>::new();
        for sample in longest_first {
            let length = lengths[sample as usize];
            let fitting = with_room.range_mut(length..).next();
            let (room, row) = match fitting.map(|(room, rows)| (*room, rows.pop())) {
                Some((room, Some(row))) => {
                    if with_room.get(&room).is_some_and(Vec::is_empty) {
                        with_room.remove(&room);
                    }
                    (room, row)
                }
                _ => {
                    rows.push(Vec::new());
                    (context, rows.len() - 1)
                }
            };
            rows[row].push(sample);
            with_room.entry(room - length).or_default().push(row);
        }
        let mut packing = Packing {
            starts: vec![0],
            samples: Vec::with_capacity(lengths.len()),
        };
        for row in rows {
            packing.samples.extend(row);
            packing.starts.push(packing.samples.len());
        }
        packing
    }

    /// Number of rows.
    pub(in crate::data) fn num_rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The samples of a row.
    pub(in crate::data) fn row(&self, row: usize) -> impl Iterator<Item = usize> {
        let range: Range<usize> = self.starts[row]..self.starts[row + 1];
        self.samples[range].iter().map(|sample| *sample as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sample_has_its_place(lengths in prop::collection::vec(1usize..=50, 1..300), more in 0usize..20) {
            let context = lengths.iter().max().unwrap() + more;
            let packing = Packing::new(&lengths, context);
            let mut seen: Vec<usize> = Vec::new();
            for row in 0..packing.num_rows() {
                let samples: Vec<usize> = packing.row(row).collect();
                prop_assert!(!samples.is_empty());
                prop_assert!(samples.iter().map(|sample| lengths[*sample]).sum::<usize>() <= context);
                seen.extend(samples);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
            let fewest = lengths.iter().sum::<usize>().div_ceil(context);
            // Two neighbours that are at most half full would share a row.
            prop_assert!(packing.num_rows() <= 2 * fewest + 1);
        }
    }

    #[test]
    fn the_fullest_row_with_room_takes_a_sample() {
        let packing = Packing::new(&[6, 7, 4, 3, 2, 1], 10);
        let rows: Vec<Vec<usize>> = (0..packing.num_rows())
            .map(|row| packing.row(row).collect())
            .collect();
        assert_eq!(rows, [vec![1, 3], vec![0, 2], vec![4, 5]]);
    }
}
