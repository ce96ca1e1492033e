//! Programs whose attention stores its scores: their time, their memory, and the recomputation of attention alone.

use fascicle_plan::{Candidate, Error, Outcome, Request, enumerate, estimate, simulate};
use grid::machine::Machine;

// One node of Selene; a batch that fills its devices.
fn request(sequence: usize, stored_scores: bool) -> Request {
    let mut model = families::gpt::published(8, 4096, 32);
    model.context = sequence;
    let machine = Machine::find("selene").unwrap();
    Request {
        batch: 8,
        grid: Some("x=8".parse().unwrap()),
        micro_batches: Some(2),
        sequence_parallel: Some(false),
        stored_scores,
        ..Request::new(machine, 8, "small", model.into()).unwrap()
    }
}

fn candidate(request: &Request, recompute: bool) -> Candidate {
    let request = Request {
        recompute: Some(recompute),
        ..request.clone()
    };
    enumerate::candidates(&request)[0].clone()
}

fn outcome(request: &Request, recompute: bool) -> Outcome {
    simulate(request, &candidate(request, recompute), false).unwrap()
}

#[test]
fn recomputing_attention_alone_lies_between_all_and_nothing() {
    let (fused, stored) = (request(2048, false), request(2048, true));
    let seconds = |request, recompute| outcome(request, recompute).step_s;
    let [nothing, attention, all] = [
        seconds(&fused, false),
        seconds(&stored, false),
        seconds(&stored, true),
    ];
    assert!(
        nothing < attention && attention < all,
        "{nothing} {attention} {all}"
    );
    let attention_of = |recompute| {
        let outcome = outcome(&stored, recompute);
        outcome.slowest().breakdown.attention_s
    };
    let (selective, layers) = (attention_of(false), attention_of(true));
    assert!(
        (selective / layers - 1.0).abs() < 1e-6,
        "both run forward twice and backward once: {selective} {layers}"
    );
}

#[test]
fn estimates_follow_simulations() {
    for (recompute, stored) in [(false, false), (false, true), (true, false), (true, true)] {
        let request = request(2048, stored);
        let candidate = candidate(&request, recompute);
        let simulated = simulate(&request, &candidate, false).unwrap().step_s;
        let share = estimate::step(&request, &candidate) / simulated;
        assert!((0.88..1.12).contains(&share), "{candidate:?}: {share}");
    }
}

#[test]
fn scores_that_do_not_fit_are_refused() {
    let sequence = 1 << 16;
    assert!(
        simulate(
            &request(sequence, false),
            &candidate(&request(sequence, false), true),
            false
        )
        .is_ok()
    );
    let request = request(sequence, true);
    let error = simulate(&request, &candidate(&request, true), false).unwrap_err();
    // Scores and probabilities of 4 heads of 4 sequences, 2 bytes each.
    let bytes = 2 * 4 * 4 * sequence * sequence * 2;
    assert!(
        matches!(&error, Error::Train(_)) && format!("{error:?}").contains(&bytes.to_string()),
        "{error:?}"
    );
}
