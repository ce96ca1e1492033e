//! Every schedule passes the check and keeps its promises, for all small sizes.

use super::super::{ScheduleKind, Times, build, check, idle};
use super::{all_kinds, brute};
use hal::error::Grouped;

fn for_all_sizes(mut body: impl FnMut(ScheduleKind, usize, usize)) {
    for kind in all_kinds() {
        for num_stages in 1..=6 {
            (1..=12).for_each(|num_micro_batches| body(kind, num_stages, num_micro_batches));
        }
    }
}

#[test]
fn all_pass_the_check_and_the_brute_force_run() {
    for_all_sizes(|kind, num_stages, num_micro_batches| {
        let schedule = build(kind, num_stages, num_micro_batches).unwrap();
        let report = check(&schedule)
            .unwrap_or_else(|e| panic!("{kind} {num_stages}x{num_micro_batches}: {e}"));
        assert_eq!(schedule.num_chunks, kind.num_chunks());
        let run = brute::run(&schedule, false);
        assert_eq!(
            run.as_deref(),
            Ok(&report.peak_live[..]),
            "{kind} {num_stages}x{num_micro_batches}"
        );
        let blocking = brute::run(&schedule, true);
        assert_eq!(
            blocking.is_ok(),
            report.is_safe_with_blocking_sends(),
            "{kind} {num_stages}x{num_micro_batches}"
        );
        let hops = match kind {
            _ if num_stages == 1 => 0,
            // The last stage hands over to itself.
            ScheduleKind::ZbV => 2 * (num_stages - 1),
            _ => num_stages * kind.num_chunks() - 1,
        };
        assert_eq!(report.num_messages, 2 * hops * num_micro_batches);
    });
}

#[test]
fn live_activations_are_as_promised() {
    for_all_sizes(|kind, num_stages, num_micro_batches| {
        let report = check(&build(kind, num_stages, num_micro_batches).unwrap()).unwrap();
        for (stage, peak) in report.peak_live.into_iter().enumerate() {
            let bound = kind
                .peak_live(stage, num_stages, num_micro_batches)
                .unwrap();
            let told =
                format!("{kind} {num_stages}x{num_micro_batches} stage {stage}: {peak} of {bound}");
            match kind {
                ScheduleKind::GPipe | ScheduleKind::OneForwardOneBackward => {
                    assert_eq!(peak, bound, "{told}")
                }
                _ => assert!(peak <= bound, "{told}"),
            }
        }
    });
}

#[test]
fn promised_bounds_are_the_published_ones() {
    let bounds = |kind: ScheduleKind| {
        (0..4)
            .map(|i| kind.peak_live(i, 4, 8).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(bounds(ScheduleKind::GPipe), [8, 8, 8, 8]);
    assert_eq!(bounds(ScheduleKind::OneForwardOneBackward), [4, 3, 2, 1]);
    assert_eq!(
        bounds(ScheduleKind::Interleaved { chunks: 2 }),
        [11, 9, 7, 5]
    );
    assert_eq!(
        bounds(ScheduleKind::MessageDriven { in_flight: None }),
        [4, 4, 4, 4]
    );
    assert_eq!(bounds(ScheduleKind::ZbH1), [4, 4, 4, 4]);
    assert_eq!(bounds(ScheduleKind::ZbV), [8, 8, 8, 8]);
}

#[test]
fn idle_time_is_as_promised_whatever_the_passes_cost() {
    for_all_sizes(|kind, num_stages, num_micro_batches| {
        let schedule = build(kind, num_stages, num_micro_batches).unwrap();
        for times in [
            Times::UNIT,
            Times::halves(1.0, 1.0),
            Times::halves(1.0, 2.0),
            Times::halves(1.0, 3.0),
            Times::halves(5.0, 2.0),
            Times {
                forward_us: 3.0,
                inputs_us: 4.0,
                weights_us: 2.0,
            },
        ] {
            let Some(bubble) = kind.bubble(num_stages, num_micro_batches, &times) else {
                continue;
            };
            let idle = idle(&schedule, &times).unwrap();
            let told = format!("{kind} {num_stages}x{num_micro_batches} {times:?}");
            let least = idle.stages.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(
                (least - bubble).abs() < 1e-9,
                "{told}: {least}, promised {bubble}"
            );
            if !kind.splits_backward() {
                assert!((idle.fraction - bubble).abs() < 1e-9, "{told}: all stages");
            }
        }
    });
}

#[test]
fn interleaving_works_without_whole_groups() {
    // Not a multiple of the stages: still a valid schedule, and no slower than with the micro-batches rounded
    // up.
    for (num_stages, num_micro_batches) in [(4, 5), (4, 6), (4, 7), (5, 3), (6, 1), (6, 8)] {
        let kind = ScheduleKind::Interleaved { chunks: 2 };
        let time = |m| {
            idle(
                &build(kind, num_stages, m).unwrap(),
                &Times::halves(1.0, 2.0),
            )
            .unwrap()
            .makespan_us
        };
        assert_eq!(
            kind.bubble(num_stages, num_micro_batches, &Times::UNIT),
            None
        );
        assert!(time(num_micro_batches) <= time(num_micro_batches.next_multiple_of(num_stages)));
    }
}

#[test]
fn all_report_wrong_sizes() {
    for kind in all_kinds() {
        for (num_stages, num_micro_batches) in [(0, 1), (1, 0), (usize::MAX, 1), (3, usize::MAX)] {
            let text = build(kind, num_stages, num_micro_batches)
                .unwrap_err()
                .to_string();
            assert!(
                text.contains(&Grouped(num_stages as u64).to_string()) && text.contains("needs"),
                "{text}"
            );
        }
    }
    assert!(build(ScheduleKind::Interleaved { chunks: 0 }, 2, 2).is_err());
    assert!(build(ScheduleKind::MessageDriven { in_flight: Some(0) }, 2, 2).is_err());
    assert!(ScheduleKind::GPipe.peak_live(2, 2, 2).is_err());
}
