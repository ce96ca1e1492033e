//! The work of a step by kernel: all of it is there, and its flop are those of the model.

use fascicle_plan::{Request, enumerate, kernels::kernels, simulate};
use grid::machine::Machine;
use parallel::data::Sharding;

const LAYERS: usize = 4;
const HIDDEN: usize = 1024;
const HEADS: usize = 16;
const VOCABULARY: usize = 8192;
const SEQUENCES: usize = 4;

#[test]
fn the_work_of_a_step_is_all_there() {
    let mut model = families::gpt::published(LAYERS, HIDDEN, HEADS);
    model.vocabulary = VOCABULARY;
    let tokens = (SEQUENCES * model.context) as f64;
    let request = Request {
        batch: SEQUENCES,
        grid: Some("data=4".parse().unwrap()),
        micro_batches: Some(1),
        recompute: Some(false),
        sharding: Some(Sharding::None),
        order: Some("x,y,z,pipeline,data".parse().unwrap()),
        ..Request::new(
            Machine::find("perlmutter").unwrap(),
            4,
            "small",
            model.into(),
        )
        .unwrap()
    };
    let candidate = &enumerate::candidates(&request)[0];
    let outcome = simulate(&request, candidate, true).unwrap();
    let lines = kernels(&request, &outcome);
    let of = |name: &str| lines.iter().find(|line| line.name == name).unwrap();

    let seconds: f64 = lines.iter().map(|line| line.seconds).sum();
    let computed = outcome.stages[0].breakdown.compute_s();
    assert!(
        (seconds / computed - 1.0).abs() < 1e-9,
        "{seconds}, {computed}"
    );
    // Four matrices of 12 h^2 elements in each layer and the head, two flop each for a row, in forward and for both gradients.
    let weights = LAYERS * 12 * HIDDEN * HIDDEN + HIDDEN * VOCABULARY;
    let flop = 3.0 * 2.0 * weights as f64 * tokens / 4.0;
    assert_eq!(of("gemm").flop, flop);
    assert_eq!(of("attention_forward").calls, LAYERS);
    assert_eq!(of("adamw").flop, 0.0);
    for line in &lines {
        assert!(line.least_s <= line.seconds * 1.0001, "{line:?}");
    }
    // Without spans there is nothing to count.
    let untold = simulate(&request, candidate, false).unwrap();
    assert_eq!(kernels(&request, &untold), []);
}
