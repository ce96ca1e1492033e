//! Which source gives which row, and how many rows it gave before: both functions of the row's number.
//!
//! Rows are divided in a tree. Of the first `n` rows of a node, the left half of its sources has `n * share`, rounded, and the
//! right half the others. The next row belongs to the side whose number grows with it. So the numbers of all sources always add
//! up to `n`, each is within a few rows of `n * weight`, and nothing is drawn or remembered.

use std::ops::Range;

use crate::data::{Error, Result};

/// The most sources of a mixture.
const MOST_SOURCES: usize = 256;

/// The least share of a source.
const LEAST_SHARE: f64 = 1e-6;

/// Binary digits of a share. Numbers of rows have at most 88, of steps and of a batch, so that their product fits 128.
const DIGITS: u32 = 38;

/// The shares of sources in the rows of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quotas {
    shares: Vec<f64>,
    /// The left half's share of each node, the node before its halves, and the left before the right.
    splits: Vec<u64>,
}

impl Quotas {
    /// Quotas of these weights, which need not add up to 1.
    ///
    /// # Errors
    /// [`Error::Bound`] for no or too many weights, for one that is no positive number, and for one that is too small beside the
    /// others.
    pub(super) fn new(weights: &[f64]) -> Result<Quotas> {
        let refuse = |found: String, needed: String| {
            Err(Error::Bound {
                setting: "mixture",
                found,
                needed,
            })
        };
        if !(1..=MOST_SOURCES).contains(&weights.len()) {
            let needed = format!("1 to {MOST_SOURCES} sources");
            return refuse(format!("of {} sources", weights.len()), needed);
        }
        if let Some(at) = weights
            .iter()
            .position(|weight| !(weight.is_finite() && *weight > 0.0))
        {
            let found = format!("with weight {} for source {}", weights[at], at + 1);
            return refuse(found, "weights that are finite and above 0".into());
        }
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        if !total.is_finite() {
            return refuse(
                "with weights whose sum is infinite".into(),
                "a finite one".into(),
            );
        }
        if let Some(at) = shares.iter().position(|share| *share < LEAST_SHARE) {
            let found = format!(
                "with weight {} of {total} for source {}, a share of {:.1e}",
                weights[at],
                at + 1,
                shares[at]
            );
            return refuse(found, format!("shares of at least {LEAST_SHARE:.0e}"));
        }
        let mut splits = Vec::with_capacity(weights.len());
        split(&shares, &mut splits);
        Ok(Quotas { shares, splits })
    }

    /// The share of each source in all rows.
    pub(super) fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The source of row `row`, and the number of rows that it gave before.
    pub(super) fn locate(&self, row: u128) -> (usize, u128) {
        let (mut sources, mut node, mut row) = (0..self.shares.len(), 0, row);
        while sources.len() > 1 {
            let middle = middle(&sources);
            let (before, with) = (self.left(node, row), self.left(node, row + 1));
            if with > before {
                (sources, node, row) = (sources.start..middle, node + 1, before);
            } else {
                // A half of n sources has n - 1 nodes.
                node += middle - sources.start;
                (sources, row) = (middle..sources.end, row - before);
            }
        }
        (sources.start, row)
    }

    /// The number of rows of each source among the first `rows`.
    pub(super) fn before(&self, rows: u128) -> Vec<u128> {
        let mut counts = vec![0; self.shares.len()];
        let mut nodes = vec![(0..self.shares.len(), 0, rows)];
        while let Some((sources, node, rows)) = nodes.pop() {
            if sources.len() == 1 {
                counts[sources.start] = rows;
                continue;
            }
            let (middle, left) = (middle(&sources), self.left(node, rows));
            let right = node + middle - sources.start;
            nodes.push((sources.start..middle, node + 1, left));
            nodes.push((middle..sources.end, right, rows - left));
        }
        counts
    }

    // The rows of a node's left half among its first `rows`: rounded, halves upwards.
    fn left(&self, node: usize, rows: u128) -> u128 {
        (rows * u128::from(self.splits[node]) + (1 << (DIGITS - 1))) >> DIGITS
    }
}

fn middle(sources: &Range<usize>) -> usize {
    sources.start + sources.len().div_ceil(2)
}

fn split(shares: &[f64], splits: &mut Vec<u64>) {
    if shares.len() < 2 {
        return;
    }
    let (left, right) = shares.split_at(middle(&(0..shares.len())));
    let [own, other] = [left, right].map(|half| half.iter().sum::<f64>());
    splits.push((own / (own + other) * (1u64 << DIGITS) as f64).round() as u64);
    split(left, splits);
    split(right, splits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_row_has_one_source_and_numbers_stay_near_the_shares(
            weights in prop::collection::vec(0.01f64..10.0, 1..12), first in 0u128..1 << 87,
        ) {
            let quotas = Quotas::new(&weights).unwrap();
            for first in [0, first] {
                let mut counts = quotas.before(first);
                prop_assert_eq!(counts.iter().sum::<u128>(), first);
                for row in first..first + 300 {
                    let (source, before) = quotas.locate(row);
                    prop_assert_eq!(before, counts[source]);
                    counts[source] += 1;
                    prop_assert_eq!(&counts, &quotas.before(row + 1));
                }
            }
            let counts = quotas.before(100_000);
            for (count, share) in counts.iter().zip(quotas.shares()) {
                // At most half a row from each of four rounded nodes.
                prop_assert!((*count as f64 - 100_000.0 * share).abs() < 2.1, "{count} of {share}");
            }
        }
    }

    #[test]
    fn small_cases_are_as_by_hand() {
        let quotas = Quotas::new(&[3.0, 1.0]).unwrap();
        let sources: Vec<usize> = (0..8).map(|row| quotas.locate(row).0).collect();
        assert_eq!(sources, [0, 0, 1, 0, 0, 0, 1, 0]);
        let quotas = Quotas::new(&[1.0, 1.0, 2.0]).unwrap();
        let sources: Vec<usize> = (0..8).map(|row| quotas.locate(row).0).collect();
        assert_eq!(sources, [0, 2, 1, 2, 0, 2, 1, 2]);
        assert_eq!(Quotas::new(&[5.0]).unwrap().locate(9), (0, 9));
        let last = u128::from(u64::MAX) * (1 << 24);
        assert!(quotas.locate(last).1 >= last / 4 - 2);
    }

    #[test]
    fn weights_that_cannot_be_are_refused() {
        let many = vec![1.0; 257];
        let cases: [(&[f64], &str); 8] = [
            (&[], "data: mixture is of 0 sources, needs 1 to 256 sources"),
            (&many, "of 257 sources, needs 1 to 256 sources"),
            (
                &[1.0, f64::NAN],
                "with weight NaN for source 2, needs weights that are finite and above 0",
            ),
            (&[-0.5, 1.0], "with weight -0.5 for source 1"),
            (&[0.0, 1.0], "with weight 0 for source 1"),
            (&[f64::INFINITY], "with weight inf for source 1"),
            (&[f64::MAX, f64::MAX], "whose sum is infinite"),
            (
                &[1.0, 1e-7],
                "with weight 0.0000001 of 1.0000001 for source 2, a share of 1.0e-7, needs shares of at least 1e-6",
            ),
        ];
        for (weights, needed) in cases {
            let found = Quotas::new(weights).unwrap_err().to_string();
            assert!(found.contains(needed), "{found}");
        }
    }
}
