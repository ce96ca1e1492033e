//! A schedule that stashes weights, on the simulated vendor: the program that trains, with time for numbers.

mod even_blocks;

use fascicle_plan::{Outcome, Request, enumerate, estimate, simulate, simulate::Stage};
use parallel::pipeline::{ScheduleKind, schedule::Times};
use tensor::MemoryKind;

const STAGES: usize = 4;
const MICRO_BATCHES: usize = 16;

fn request(schedule: Option<ScheduleKind>) -> Request {
    even_blocks::request([STAGES, MICRO_BATCHES], schedule, false)
}

fn simulated(schedule: &str) -> (Outcome, f64) {
    let request = request(Some(schedule.parse().unwrap()));
    let candidate = enumerate::candidates(&request)[0].clone();
    let bound = estimate::memory(&request, &candidate);
    (simulate(&request, &candidate, false).unwrap(), bound)
}

fn peak(stage: &Stage, kind: MemoryKind) -> f64 {
    stage.memory.by_kind[kind as usize].peak as f64
}

#[test]
fn each_stage_holds_a_version_for_each_micro_batch_in_flight() {
    let ((flushed, _), (stashed, bound)) = (simulated("1f1b"), simulated("pipedream"));
    let stages = flushed.stages.iter().zip(&stashed.stages);
    let mut fullest = 0.0_f64;
    for (number, (flushed, stashed)) in stages.enumerate() {
        let weights = peak(flushed, MemoryKind::Weights);
        let versions = (STAGES - number) as f64;
        assert_eq!(peak(stashed, MemoryKind::Weights), versions * weights);
        for kind in [MemoryKind::Gradients, MemoryKind::Optimiser] {
            assert_eq!(peak(stashed, kind), peak(flushed, kind), "{kind:?}");
        }
        let kept = |stage| peak(stage, MemoryKind::Activations);
        // A stage holds what it receives and sends at the end of a step too.
        assert!(kept(stashed) < 1.2 * kept(flushed), "stage {number}");
        fullest = fullest.max(stashed.memory.peak as f64);
    }
    assert!(bound < fullest, "{bound} of {fullest}");
}

#[test]
fn a_step_waits_for_the_backwards_of_the_other_stages() {
    let ((flushed, _), (stashed, _)) = (simulated("1f1b"), simulated("pipedream"));
    let waits = |outcome: &Outcome| {
        let shares = outcome.stages.iter().map(|one| one.breakdown.bubble_s);
        shares.fold(f64::INFINITY, f64::min) / outcome.step_s
    };
    let times = Times::halves(1.0, 2.0);
    let bubble = ScheduleKind::PipeDream.bubble(STAGES, MICRO_BATCHES, &times);
    let (found, formula) = (waits(&stashed), bubble.unwrap());
    assert!(
        (found - formula).abs() < 0.03,
        "{found}, and {formula} by the formula"
    );
    assert!(found < waits(&flushed));
}

#[test]
fn it_is_considered_only_if_asked_for() {
    let all = enumerate::candidates(&request(None));
    assert!(all.len() > 1 && !all.iter().any(|one| one.schedule.delays_gradients()));
}
