//! Steps of many micro-batches, which are concluded from two of few, are those that are simulated whole.

mod even_blocks;

use fascicle_plan::{Request, enumerate, simulate, simulate::Stage};
use grid::{Degrees, machine::Machine};
use parallel::data::Sharding;

/// Six periods of 16, and a rest.
const MICRO_BATCHES: usize = 100;

// A traced step is simulated whole.
fn check(request: &Request, what: &str) {
    let candidate = enumerate::candidates(request)[0].clone();
    let [found, whole] = [false, true].map(|traced| simulate(request, &candidate, traced).unwrap());
    let whole_s = whole.step_s;
    let apart = (found.step_s / whole_s - 1.0).abs();
    assert!(
        apart < 0.001,
        "{what}: {} s, whole {whole_s} s",
        found.step_s
    );
    assert_eq!(found.stages.len(), whole.stages.len());
    for (found, whole) in found.stages.iter().zip(&whole.stages) {
        assert_eq!(found.counters, whole.counters, "{what}");
        for (part, found, whole) in times(found, whole) {
            let apart = (found - whole).abs() / whole_s;
            assert!(apart < 0.001, "{what}, {part}: {found} s, whole {whole} s");
        }
        let flop = found.breakdown.flop / whole.breakdown.flop;
        assert!((flop - 1.0).abs() < 1e-9, "{what}: {flop} of the flop");
        for (found, whole) in found.breakdown.groups.iter().zip(&whole.breakdown.groups) {
            assert_eq!((&found.label, found.bytes), (&whole.label, whole.bytes));
        }
        // Buffers that wait for their streams are a little more in later periods.
        let memory = found.memory.peak as f64 / whole.memory.peak as f64;
        assert!(
            (memory - 1.0).abs() < 0.005,
            "{what}: {memory} of the memory"
        );
    }
    assert!(found.stages[0].spans.is_empty() && !whole.stages[0].spans.is_empty());
}

fn times(found: &Stage, whole: &Stage) -> Vec<(&'static str, f64, f64)> {
    let of = |stage: &Stage| {
        let all = &stage.breakdown;
        [
            ("total", all.total_s),
            ("matmuls", all.matmuls_s),
            ("attention", all.attention_s),
            ("elementwise", all.elementwise_s),
            ("optimiser", all.optimiser_s),
            ("bubble", all.bubble_s),
            ("host", all.host_s),
            ("exposed", all.exposed_s()),
        ]
    };
    let pairs = of(found).into_iter().zip(of(whole));
    pairs
        .map(|((part, found), (_, whole))| (part, found, whole))
        .collect()
}

#[test]
fn on_every_schedule() {
    for schedule in [
        "1f1b",
        "interleaved:2",
        "zb-h1",
        "zb-v",
        "pipedream",
        "pipedream-2bw",
    ] {
        let parsed = schedule.parse().unwrap();
        check(
            &even_blocks::request([4, MICRO_BATCHES], Some(parsed), false),
            schedule,
        );
    }
}

#[test]
fn without_a_pipeline() {
    let model = families::gpt::published(4, 2048, 16);
    for (grid, sharding) in [
        ("data=16", Sharding::Optimiser),
        ("data=16", Sharding::Gradients),
        ("x=2,z=2,data=4", Sharding::None),
    ] {
        let grid: Degrees = grid.parse().unwrap();
        let machine = Machine::find("frontier").unwrap();
        let request = Request {
            batch: grid.data * grid.z * MICRO_BATCHES,
            grid: Some(grid),
            micro_batches: Some(MICRO_BATCHES),
            sharding: Some(sharding),
            ..Request::new(machine, 16, "a gpt", model.clone().into()).unwrap()
        };
        check(&request, &format!("{grid}, {sharding:?}"));
    }
}
