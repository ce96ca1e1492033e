//! The message-driven policy under arbitrary delays.

use super::super::{Action, Hop, Pace, Pass, Schedule, check, one_forward_one_backward, simulate};
use super::brute;
use std::collections::HashMap;

/// SplitMix64: delays that depend only on the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Micro-batches of one direction in the order in which a stage runs them.
fn order(list: &[Action], pass: Pass) -> Vec<usize> {
    let of_pass = list
        .iter()
        .filter(|action| action.peer().is_none() && action.pass() == pass);
    of_pass.map(|action| action.micro_batch()).collect()
}

#[test]
fn a_thousand_random_weathers() {
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let (num_stages, num_micro_batches) =
            (1 + dice.roll(6) as usize, 1 + dice.roll(12) as usize);
        let limit = [None, Some(1 + dice.roll(8) as usize)][dice.roll(2) as usize];
        let pace = Pace {
            forward_us: dice.roll(5),
            backward_us: dice.roll(9),
        };
        let longest = 1 + dice.roll(40);
        let schedule = simulate(num_stages, num_micro_batches, limit, pace, |_| {
            dice.roll(longest)
        })
        .unwrap();
        let report = check(&schedule).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(brute::run(&schedule, false).is_ok(), "seed {seed}");
        let bound = limit.unwrap_or(num_stages).min(num_micro_batches);
        assert!(
            report.peak_live.iter().all(|peak| *peak <= bound),
            "seed {seed}: {:?} above {bound}",
            report.peak_live
        );
        assert_eq!(
            report.peak_live.last(),
            Some(&1),
            "seed {seed}: the last stage turns around at once"
        );
        for list in &schedule.stages {
            for pass in [Pass::Forward, Pass::Backward] {
                assert!(
                    order(list, pass).into_iter().eq(0..num_micro_batches),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn the_same_delays_give_the_same_schedule() {
    let run = |seed| {
        let mut dice = Dice(seed);
        simulate(
            5,
            12,
            None,
            Pace {
                forward_us: 3,
                backward_us: 7,
            },
            |_| dice.roll(30),
        )
        .unwrap()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn each_message_is_given_a_delay_once_and_never_overtakes() {
    let mut seen: HashMap<Hop, usize> = HashMap::new();
    let mut delay = 1000;
    let pace = Pace {
        forward_us: 1,
        backward_us: 2,
    };
    // Each message is faster than the one before it, and would overtake it without queues.
    let schedule = simulate(3, 6, Some(4), pace, |hop| {
        *seen.entry(hop).or_default() += 1;
        delay -= 30;
        delay
    });
    assert!(check(&schedule.unwrap()).is_ok());
    assert!(seen.len() == 24 && seen.values().all(|count| *count == 1));
    assert!(seen.keys().all(|hop| hop.from.abs_diff(hop.to) == 1));
}

#[test]
fn endless_delays_do_not_overflow() {
    let pace = Pace {
        forward_us: u64::MAX,
        backward_us: 1,
    };
    assert!(check(&simulate(3, 3, None, pace, |_| u64::MAX).unwrap()).is_ok());
}

#[test]
fn one_stage_needs_no_messages() {
    let pace = Pace {
        forward_us: 1,
        backward_us: 1,
    };
    let schedule: Schedule = simulate(1, 2, None, pace, |_| unreachable!("no messages")).unwrap();
    assert_eq!(schedule, one_forward_one_backward(1, 2).unwrap());
}
