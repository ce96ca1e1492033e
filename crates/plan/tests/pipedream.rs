//! A schedule that goes on from one step into the next, on the simulated vendor: the program that trains, with time for numbers.

mod even_blocks;

use fascicle_plan::{Outcome, Request, enumerate, simulate, simulate::Stage};
use parallel::pipeline::ScheduleKind;
use tensor::MemoryKind;

const STAGES: usize = 8;
const MICRO_BATCHES: usize = 16;

fn request(schedule: ScheduleKind) -> Request {
    even_blocks::request([STAGES, MICRO_BATCHES], Some(schedule), true)
}

fn simulated(schedule: &str) -> Outcome {
    let request = request(schedule.parse().unwrap());
    let candidate = enumerate::candidates(&request)[0].clone();
    simulate(&request, &candidate, false).unwrap()
}

// Of the stage that waits least.
fn waits(outcome: &Outcome) -> f64 {
    let shares = outcome.stages.iter().map(|stage| stage.breakdown.bubble_s);
    shares.fold(f64::INFINITY, f64::min) / outcome.step_s
}

#[test]
fn the_bubble_of_a_step_between_others_is_gone() {
    let [flushed, overlapped] = ["1f1b", "pipedream-2bw"].map(simulated);
    // (p-1) / (m+p-1) of the step with a flush.
    let formula = (STAGES - 1) as f64 / (MICRO_BATCHES + STAGES - 1) as f64;
    assert!(
        (waits(&flushed) - formula).abs() < 0.01,
        "{}",
        waits(&flushed)
    );
    // One forward by the formula, 1 / (3m+1), beside the messages and the norm for which all stages wait.
    let formula = 1.0 / (3 * MICRO_BATCHES + 1) as f64;
    assert!(waits(&overlapped) < 2.0 * formula, "{}", waits(&overlapped));
    let faster = overlapped.step_s / flushed.step_s;
    assert!(faster < 0.75, "{faster} of the time with a flush");
}

#[test]
fn a_second_version_is_counted_and_activations_are_those_of_1f1b() {
    let [flushed, overlapped] = ["1f1b", "pipedream-2bw"].map(simulated);
    let stages = flushed.stages.iter().zip(&overlapped.stages);
    for (number, (flushed, overlapped)) in stages.enumerate() {
        let of = |stage: &Stage, kind: MemoryKind| stage.memory.by_kind[kind as usize].peak as f64;
        // The first two stages run no backward ahead, and share their gradients.
        let of_gradients = if number < 2 { 1.0 } else { 2.0 };
        for (kind, versions) in [
            (MemoryKind::Weights, 2.0),
            (MemoryKind::Gradients, of_gradients),
        ] {
            assert_eq!(
                of(overlapped, kind),
                versions * of(flushed, kind),
                "{kind:?}"
            );
        }
        let activations =
            of(overlapped, MemoryKind::Activations) / of(flushed, MemoryKind::Activations);
        // The first stages hold what they receive and send at the end of a step.
        assert!(activations < 1.2, "{activations}");
    }
}

#[test]
fn it_is_considered_only_if_asked_for_and_if_two_versions_suffice() {
    let any = Request {
        schedule: None,
        ..request(ScheduleKind::PipeDream2Bw)
    };
    let all = enumerate::candidates(&any);
    assert!(all.len() > 1 && !all.iter().any(|one| one.schedule.delays_gradients()));
    let few = Request {
        micro_batches: Some(STAGES / 2),
        ..request(ScheduleKind::PipeDream2Bw)
    };
    assert!(enumerate::candidates(&few).is_empty());
}
