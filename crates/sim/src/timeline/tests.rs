use super::Timeline;
use proptest::prelude::*;

// Intervals on a grid of whole numbers, where every sum is exact and a set of cells is a complete description.
const CELLS: usize = 60;

fn intervals() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec(
        (0..CELLS, 0..9usize).prop_map(|(start, length)| (start, start + length)),
        0..12,
    )
}

fn timeline(intervals: &[(usize, usize)]) -> Timeline {
    let mut timeline = Timeline::default();
    intervals
        .iter()
        .for_each(|&(start, end)| timeline.insert(start as f64, end as f64));
    timeline
}

fn taken(intervals: &[(usize, usize)], cell: usize) -> bool {
    intervals
        .iter()
        .any(|&(start, end)| (start..end).contains(&cell))
}

proptest! {
    #[test]
    fn intervals_are_a_union_in_order(intervals in intervals()) {
        let timeline = timeline(&intervals);
        prop_assert!(timeline.busy.iter().all(|taken| taken.0 < taken.1));
        prop_assert!(timeline.busy.windows(2).all(|pair| pair[0].1 < pair[1].0), "apart and in order");
        for cell in 0..CELLS + 10 {
            let free = (cell..).find(|&cell| !taken(&intervals, cell)).unwrap() as f64;
            prop_assert_eq!(timeline.free_from(cell as f64), free);
            let next = (cell..CELLS + 10).find(|&cell| taken(&intervals, cell)).map_or(f64::INFINITY, |at| at as f64);
            prop_assert_eq!(timeline.taken_from(cell as f64), next);
        }
    }

    #[test]
    fn work_goes_slower_where_the_resource_is_taken(
        intervals in intervals(),
        (start, work) in (0..CELLS, 0..40usize),
        quarters in 0..=4u32,
    ) {
        let rate = f64::from(quarters) / 4.0;
        let (mut cell, mut left) = (start, work as f64);
        loop {
            let speed = if taken(&intervals, cell) { rate } else { 1.0 };
            if left <= speed { break }
            (cell, left) = (cell + 1, left - speed);
        }
        // The loop waits through a cell in which nothing progresses.
        let speed = if taken(&intervals, cell) { rate } else { 1.0 };
        let expected = cell as f64 + if left > 0.0 { left / speed } else { 0.0 };
        let found = timeline(&intervals).finish(start as f64, work as f64, rate);
        // With nothing left at a border, or at rate 0, the end may be reported before or after cells without
        // progress.
        let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
        prop_assert!(same(found, expected) || (left == 0.0 && found <= expected + 1e-9), "{found}, not {expected}");
    }

    #[test]
    fn less_work_or_fewer_others_never_end_later(
        (some, more) in (intervals(), intervals()),
        start in 0.0..60.0f64,
        (work, extra) in (0.0..40.0f64, 0.0..10.0f64),
        (rate, faster) in (0.05..1.0f64, 0.0..1.0f64),
    ) {
        let few = timeline(&some);
        let many = timeline(&[some, more].concat());
        let end = few.finish(start, work, rate);
        let later = end + 1e-9;
        prop_assert!(end >= start + work - 1e-9);
        prop_assert!(few.finish(start, work + extra, rate) >= end - 1e-9);
        prop_assert!(many.finish(start, work, rate) >= end - 1e-9);
        prop_assert!(few.finish(start, work, rate + (1.0 - rate) * faster) <= later);
    }

    #[test]
    fn the_past_does_not_matter(intervals in intervals(), horizon in 0..CELLS, work in 0..20usize) {
        let whole = timeline(&intervals);
        let mut pruned = whole.clone();
        pruned.prune(horizon as f64);
        prop_assert!(pruned.len() <= whole.len());
        let end = |timeline: &Timeline| timeline.finish(horizon as f64, work as f64, 0.5);
        prop_assert_eq!(end(&pruned), end(&whole));
    }
}
