//! Cuts by cost, compared with all possible partitions.

use super::super::{
    Profile, ProfiledMemory, ProfiledWire, ScheduleKind, Stages, balance, partition,
};
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

/// A profile of integers: wires lead to any later items, and the memory fits some cuts.
fn profiles() -> impl Strategy<Value = (Profile, usize)> {
    let wire = (
        any::<prop::sample::Index>(),
        prop::collection::vec(any::<prop::sample::Index>(), 1..3),
        0..12u32,
    );
    let items = prop::collection::vec((0..20u32, 1..9u32, 0..9u32), 2..=12);
    (
        items,
        prop::collection::vec(wire, 0..12),
        0..120u32,
        1..=4usize,
    )
        .prop_map(|(items, wires, limit, parts)| {
            let column = |of: fn(&(u32, u32, u32)) -> u32| {
                items.iter().map(|item| f64::from(of(item))).collect()
            };
            let last = items.len() - 1;
            let wires = wires.iter().map(|(from, to, time)| {
                let from = from.index(last);
                // The objective counts as an item behind the last one.
                let to = to
                    .iter()
                    .map(|to| from + 1 + to.index(last + 1 - from))
                    .collect();
                ProfiledWire {
                    from,
                    to,
                    time: f64::from(*time),
                }
            });
            let memory = ProfiledMemory {
                limit: f64::from(limit),
                held: column(|item| item.1),
                kept: column(|item| item.2),
            };
            let profile = Profile {
                times: column(|item| item.0),
                wires: wires.collect(),
                memory: Some(memory),
            };
            (profile, parts)
        })
}

/// The slowest part and the sum of squares of the items' times, from the definition: each part receives a wire that others
/// make once, and the gradient of one that others read once.
fn slowest(profile: &Profile, cuts: &[Range<usize>]) -> (u64, u64) {
    let last = profile.times.len() - 1;
    let own = |part: &Range<usize>| profile.times[part.clone()].iter().sum::<f64>() as u64;
    let time = |part: &Range<usize>| {
        let enters = |wire: &&ProfiledWire| {
            wire.from < part.start && wire.to.iter().any(|to| part.contains(&last.min(*to)))
        };
        let leaves = |wire: &&ProfiledWire| {
            part.contains(&wire.from) && wire.to.iter().any(|to| last.min(*to) >= part.end)
        };
        let wires = profile.wires.iter();
        let wires = wires.clone().filter(enters).chain(wires.filter(leaves));
        own(part) + wires.map(|wire| wire.time).sum::<f64>() as u64
    };
    let squares = cuts.iter().map(|part| own(part) * own(part)).sum();
    (cuts.iter().map(time).max().unwrap_or(0), squares)
}

fn fits(profile: &Profile, cuts: &[Range<usize>], in_flight: &[usize]) -> bool {
    let memory = profile.memory.as_ref().unwrap();
    cuts.iter().zip(in_flight).all(|(part, live)| {
        let held: f64 = memory.held[part.clone()].iter().sum();
        let kept: f64 = memory.kept[part.clone()].iter().sum();
        held + *live as f64 * kept <= memory.limit
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_and_memory_decide_as_in_the_best_of_all((profile, parts) in profiles(), micro_batches in 1..6usize) {
        let stages = Stages::plain(parts);
        // The first stage keeps the most micro-batches, the last one a single one.
        let in_flight = ScheduleKind::default().in_flight(parts, micro_batches).unwrap();
        let found = partition(&profile, stages, &in_flight);
        let all = all_cuts(0..profile.times.len(), parts).into_iter();
        let best = all.filter(|cuts| fits(&profile, cuts, &in_flight)).min_by_key(|cuts| slowest(&profile, cuts));
        prop_assert_eq!(found.ok(), best);
    }
}

#[test]
fn a_costly_wire_is_not_cut() {
    let wire = |from, time| ProfiledWire {
        from,
        to: vec![from + 1],
        time,
    };
    let mut profile = Profile {
        times: vec![1.0; 4],
        wires: vec![wire(0, 0.1), wire(1, 5.0), wire(2, 0.1)],
        memory: None,
    };
    assert_eq!(
        partition(&profile, Stages::plain(2), &[]).unwrap(),
        [0..1, 1..4]
    );
    profile.wires[1].time = 0.1;
    assert_eq!(
        partition(&profile, Stages::plain(2), &[]).unwrap(),
        [0..2, 2..4]
    );
}

#[test]
fn the_first_stage_of_1f1b_gets_fewer_items_where_memory_is_short() {
    let memory = |limit| {
        Some(ProfiledMemory {
            limit,
            held: vec![0.0; 6],
            kept: vec![1.0; 6],
        })
    };
    let profile = |limit| Profile {
        times: vec![1.0; 6],
        wires: vec![],
        memory: memory(limit),
    };
    let in_flight = ScheduleKind::default().in_flight(2, 4).unwrap();
    assert_eq!(in_flight, [2, 1]);
    let cut = |limit| partition(&profile(limit), Stages::plain(2), &in_flight);
    assert_eq!(cut(6.0).unwrap(), [0..3, 3..6]);
    assert_eq!(cut(5.0).unwrap(), [0..2, 2..6]);
    let text = cut(3.0).unwrap_err().to_string();
    assert_eq!(
        text,
        "partition: no cut into 2 parts that fits, needs more memory than 3 bytes per stage"
    );
}
