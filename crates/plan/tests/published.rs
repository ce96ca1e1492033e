//! The preset of AxoNN's published runs, against what the published programs do.

use fascicle_plan::{Preset, Request, enumerate, simulate};
use grid::{Axis, machine::Machine};
use parallel::{Operation, Subject};

// comm_model.py of Megatron-AxoNN counts three transfers of a block over Z: a gather each for forward and the recomputed
// forward, whose block serves the backward too, and a reduce-scatter.
#[test]
fn a_weight_is_gathered_twice_and_ahead() {
    let model = families::gpt::published(4, 4096, 32).into();
    let machine = Machine::find("frontier").unwrap();
    let request = Request {
        preset: Preset::PublishedAxonn,
        batch: 512,
        grid: Some("z=64".parse().unwrap()),
        ..Request::new(machine, 64, "small", model).unwrap()
    };
    let candidates = enumerate::candidates(&request);
    assert!(
        candidates
            .iter()
            .all(|one| one.memory.recomputes_all() && one.keep_gathered)
    );
    let outcome = simulate(&request, &candidates[0], false).unwrap();
    let stage = &outcome.stages[0];
    let moved = |operation| {
        stage
            .counters
            .get(Axis::Z, operation, Subject::Linear)
            .bytes
    };
    let (gathered, scattered) = (moved(Operation::AllGather), moved(Operation::ReduceScatter));
    // The head is not recomputed: it is gathered once.
    let head = 51_200 * 4096 * 2;
    assert_eq!(gathered + head, 2 * scattered, "{gathered} {scattered}");
    let groups = &stage.breakdown.groups;
    let gathers = groups
        .iter()
        .find(|group| &*group.label == "axis z (gather)")
        .unwrap();
    assert!(gathers.hidden_s() > 4.0 * gathers.exposed_s, "{gathers:?}");
}
