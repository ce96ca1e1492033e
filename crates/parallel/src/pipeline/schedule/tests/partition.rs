//! Cuts by cost, compared with all possible partitions.

use super::super::balance;
use proptest::prelude::*;
use std::ops::Range;

/// All ways to cut `items` into `parts` contiguous non-empty ranges, shorter first ranges first.
fn all_cuts(items: Range<usize>, parts: usize) -> Vec<Vec<Range<usize>>> {
    if parts == 1 {
        return if items.is_empty() {
            vec![]
        } else {
            vec![vec![items]]
        };
    }
    let mut all = Vec::new();
    for end in items.start + 1..items.end {
        for mut rest in all_cuts(end..items.end, parts - 1) {
            rest.insert(0, items.start..end);
            all.push(rest);
        }
    }
    all
}

/// The largest sum, and the sum of squares that decides among equals. Integers, so there is no rounding.
fn merit(costs: &[u32], cuts: &[Range<usize>]) -> (u32, u32) {
    let sums = cuts
        .iter()
        .map(|range| costs[range.clone()].iter().sum::<u32>());
    sums.fold((0, 0), |(largest, squares), sum| {
        (largest.max(sum), squares + sum * sum)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_good_as_the_best_of_all(costs in proptest::collection::vec(0..20u32, 1..=10), parts in 1..=4usize) {
        let numbers: Vec<f64> = costs.iter().map(|cost| f64::from(*cost)).collect();
        let found = balance(&numbers, parts);
        // `min_by_key` keeps the first of equals, which is the one with the shortest first ranges.
        let best = all_cuts(0..costs.len(), parts).into_iter().min_by_key(|cuts| merit(&costs, cuts));
        prop_assert_eq!(found.ok(), best);
    }

    #[test]
    fn fractions_are_cut_as_well(costs in proptest::collection::vec(0.0..1.0f64, 1..=10), parts in 1..=4usize) {
        let largest = |cuts: &Vec<Range<usize>>| {
            cuts.iter().map(|range| costs[range.clone()].iter().sum::<f64>()).fold(0.0, f64::max)
        };
        let best = all_cuts(0..costs.len(), parts).iter().map(largest).reduce(f64::min);
        prop_assert_eq!(balance(&costs, parts).ok().as_ref().map(largest), best);
    }
}
