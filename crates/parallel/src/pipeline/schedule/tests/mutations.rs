//! Valid schedules with one fault: the checker agrees with the brute-force run, and names the fault.

use super::super::{Action, Schedule, ScheduleError, ScheduleKind, build, check};
use super::{brute, kinds};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Fault {
    Swap(Index, Index),
    Drop(Index),
    Duplicate(Index, Index),
    MicroBatch(Index, Index),
}

fn faults() -> impl Strategy<Value = Fault> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), index()).prop_map(|(one, other)| Fault::Swap(one, other)),
        1 => index().prop_map(Fault::Drop),
        1 => (index(), index()).prop_map(|(from, to)| Fault::Duplicate(from, to)),
        1 => (index(), index()).prop_map(|(at, value)| Fault::MicroBatch(at, value)),
    ]
}

impl Fault {
    /// Changes the list; returns the actions concerned.
    fn apply(&self, list: &mut Vec<Action>, num_micro_batches: usize) -> Vec<Action> {
        let length = list.len();
        match self {
            Fault::Swap(one, other) => {
                let (one, other) = (one.index(length), other.index(length));
                list.swap(one, other);
                vec![list[one], list[other]]
            }
            Fault::Drop(at) => vec![list.remove(at.index(length))],
            Fault::Duplicate(from, to) => {
                let action = list[from.index(length)];
                list.insert(to.index(length + 1), action);
                vec![action]
            }
            Fault::MicroBatch(at, value) => {
                let at = at.index(length);
                let before = list[at];
                // One value is out of range.
                list[at] = with_micro_batch(before, value.index(num_micro_batches + 1));
                vec![before, list[at]]
            }
        }
    }
}

fn with_micro_batch(mut action: Action, value: usize) -> Action {
    match &mut action {
        Action::Forward { micro_batch, .. }
        | Action::Backward { micro_batch, .. }
        | Action::Weights { micro_batch, .. }
        | Action::SendActivation { micro_batch, .. }
        | Action::RecvActivation { micro_batch, .. }
        | Action::SendGradient { micro_batch, .. }
        | Action::RecvGradient { micro_batch, .. } => *micro_batch = value,
    }
    action
}

/// Whether the error names the changed stage and, where one action is at fault, that action.
fn names(error: &ScheduleError, at: usize, changed: &[Action], fault: &Fault) -> bool {
    let one_of = |stage: usize, action: &Action| stage == at && changed.contains(action);
    match error {
        ScheduleError::Misplaced { stage, action, .. } => one_of(*stage, action),
        ScheduleError::Duplicate { stage, action, .. } => one_of(*stage, action),
        ScheduleError::Missing { stage, action, .. } => one_of(*stage, action),
        ScheduleError::Order {
            stage,
            action,
            needs,
            ..
        } => one_of(*stage, action) || one_of(*stage, needs),
        // A message moved within its channel shifts those between; the first that differs may be one of them.
        ScheduleError::ChannelOrder { channel, .. } => {
            let other = if channel.from == at {
                channel.to
            } else {
                channel.from
            };
            let on_channel =
                |action: &Action| action.pass() == channel.pass && action.peer() == Some(other);
            (channel.from == at || channel.to == at) && changed.iter().any(on_channel)
        }
        // A swapped receive blocks its stage, and every other stuck stage waits for that one.
        ScheduleError::Deadlock(deadlock) => {
            matches!(fault, Fault::Swap(..)) && deadlock.stuck.iter().any(|stuck| stuck.stage == at)
        }
        _ => false,
    }
}

fn faulty() -> impl Strategy<Value = (Schedule, usize, Fault)> {
    (kinds(), 1..=6usize, 1..=12usize, any::<Index>(), faults()).prop_map(
        |(kind, stages, micro_batches, at, fault)| {
            (
                build(kind, stages, micro_batches).unwrap(),
                at.index(stages),
                fault,
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_fault_is_found_and_named((mut schedule, at, fault) in faulty()) {
        let before = schedule.clone();
        let num_micro_batches = schedule.num_micro_batches;
        let changed = fault.apply(&mut schedule.stages[at], num_micro_batches);
        let (checked, run) = (check(&schedule), brute::run(&schedule, false));
        match &checked {
            Ok(report) => {
                prop_assert_eq!(run.as_deref(), Ok(&report.peak_live[..]), "accepted\n{}", schedule);
                let blocking = brute::run(&schedule, true);
                prop_assert_eq!(blocking.is_ok(), report.is_safe_with_blocking_sends(), "{:?}", blocking);
            }
            Err(error) => {
                prop_assert!(run.is_err() && schedule != before, "refused although it runs: {error}");
                prop_assert!(names(error, at, &changed, &fault), "{error}: not {changed:?} of stage {at}");
                prop_assert!(error.to_string().contains(&format!("stage {at}")), "{error}");
            }
        }
    }
}

#[test]
fn a_send_may_come_later_as_long_as_its_channel_keeps_its_order() {
    let mut schedule = build(ScheduleKind::GPipe, 3, 2).unwrap();
    // Forward 0, send 0, forward 1, send 1: both forwards may come first.
    schedule.stages[0].swap(1, 2);
    assert_eq!(
        brute::run(&schedule, false).as_deref(),
        Ok(&check(&schedule).unwrap().peak_live[..])
    );
}

#[test]
fn a_cycle_over_two_stages_is_a_deadlock_with_both_named() {
    // Stage 0 waits for a gradient before it has sent the activation that leads to it.
    let mut schedule = build(ScheduleKind::GPipe, 2, 1).unwrap();
    schedule.stages[0].swap(1, 2);
    let text = check(&schedule).unwrap_err().to_string();
    assert_eq!(
        text,
        "check: deadlock, needs an order that finishes: \
         stage 0 waits at position 1 to receive gradient from stage 1 (micro-batch 0, chunk 0); \
         stage 1 waits at position 0 to receive activation from stage 0 (micro-batch 0, chunk 0)"
    );
}
