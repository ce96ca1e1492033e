//! Properties of all schedules together; properties of a single file are tested beside it.

mod brute;
mod message_driven;
mod mutations;
mod overlapped;
mod partition;
mod promises;
mod replicated;
mod sharing;

use super::ScheduleKind;
use proptest::prelude::*;

/// Every kind, with up to 3 chunks and any relevant limit.
fn kinds() -> impl Strategy<Value = ScheduleKind> {
    prop_oneof![
        Just(ScheduleKind::GPipe),
        Just(ScheduleKind::OneForwardOneBackward),
        (1..=3usize).prop_map(|chunks| ScheduleKind::Interleaved { chunks }),
        proptest::option::of(1..=7usize)
            .prop_map(|in_flight| ScheduleKind::MessageDriven { in_flight }),
        Just(ScheduleKind::ZbH1),
        Just(ScheduleKind::ZbV),
    ]
}

/// All kinds for which the promises are tested, one by one.
fn all_kinds() -> Vec<ScheduleKind> {
    let mut kinds = vec![ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward];
    kinds.extend((1..=3).map(|chunks| ScheduleKind::Interleaved { chunks }));
    kinds.push(ScheduleKind::MessageDriven { in_flight: None });
    kinds.extend((1..=7).map(|limit| ScheduleKind::MessageDriven {
        in_flight: Some(limit),
    }));
    kinds.extend([ScheduleKind::ZbH1, ScheduleKind::ZbV]);
    kinds
}
