//! Training steps on a simulated machine, run by the same program as elsewhere.

mod support;

use bootstrap::local::StandIns;
use fascicle_sim::Category;
use grid::{Axis, Degrees, machine::Machine};
use parallel::{Overlap, data::UpdatePlace};
use support::{Outcome, perlmutter, train};
use testkit::{SCHEDULES, edit_gpt};
use train::{
    Config,
    config::{OverlapNames, PlaceKind, Precision},
};

fn config(degrees: Degrees, schedule: &str) -> Config {
    let mut config = testkit::config(Precision::Bf16);
    edit_gpt(&mut config, |model| model.layers = 8);
    edit_gpt(&mut config, |model| model.hidden = 1024);
    edit_gpt(&mut config, |model| model.context = 128);
    config.training.micro_batches = 4;
    config.parallel.grid = degrees;
    config.parallel.schedule = schedule
        .parse()
        .unwrap_or_else(|error| panic!("{schedule}: {error}"));
    config
}

fn pipelined() -> Degrees {
    Degrees {
        x: 2,
        y: 1,
        z: 2,
        context: 1,
        data: 1,
        pipeline: 2,
    }
}

// The first rank of each stage stands for the stage.
fn stages(config: &Config) -> StandIns {
    let grid = config.grid().unwrap();
    let stage = |rank| grid.coordinates(rank).get(Axis::Pipeline);
    let ranks = grid.world_size();
    StandIns::new(ranks, |rank| {
        (0..ranks)
            .find(|other| stage(*other) == stage(rank))
            .unwrap()
    })
    .unwrap()
}

fn parts(outcome: &Outcome) -> f64 {
    let b = &outcome.breakdown;
    b.compute_s() + b.exposed_s() + b.bubble_s + b.host_s
}

#[test]
fn every_schedule_gives_the_same_times_in_every_run() {
    let deep = Degrees {
        x: 1,
        y: 1,
        z: 2,
        context: 1,
        data: 2,
        pipeline: 4,
    };
    for (grid, schedule) in [pipelined(), deep]
        .into_iter()
        .flat_map(|grid| SCHEDULES.map(|name| (grid, name)))
    {
        let config = config(grid, schedule);
        let run = || train(&perlmutter(), &config, Some(stages(&config)));
        let first = run();
        assert_eq!(first.len(), grid.pipeline);
        for _ in 0..3 {
            assert!(run() == first, "{schedule}: another run gave another time");
        }
        for outcome in &first {
            let (parts, total) = (parts(outcome), outcome.step_s);
            assert!(
                (parts - total).abs() < 1e-9 * total.max(1.0),
                "{schedule}: {parts} of {total}"
            );
            assert!(outcome.breakdown.matmuls_s > 0.0 && outcome.breakdown.attention_s > 0.0);
            assert!(outcome.breakdown.optimiser_s > 0.0);
        }
        assert!(
            first.iter().any(|outcome| outcome.breakdown.bubble_s > 0.0),
            "{schedule}: a pipeline has a bubble"
        );
    }
}

// With no overlap, because collectives between ranks that are all live do not share links.
#[test]
fn one_rank_of_a_stage_stands_for_all() {
    for schedule in ["gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v"] {
        let mut config = config(pipelined(), schedule);
        config.parallel.overlap = OverlapNames(Overlap::NONE);
        let all = train(&perlmutter(), &config, None);
        let live = train(&perlmutter(), &config, Some(stages(&config)));
        let longest = |outcomes: &[Outcome]| {
            outcomes
                .iter()
                .map(|outcome| outcome.step_s)
                .fold(0.0, f64::max)
        };
        let (all_s, live_s) = (longest(&all), longest(&live));
        assert!(
            (live_s / all_s - 1.0).abs() < 0.02,
            "{schedule}: {live_s} for {all_s}"
        );
        assert_eq!(live[0].peak_bytes, all[0].peak_bytes, "{schedule}");
    }
}

fn faster_links(factor: f64) -> Machine {
    let mut machine = perlmutter();
    let links = &mut machine.links;
    links.injection_gbps.value *= factor;
    links.peer_gbps.value *= factor;
    links
        .table
        .iter_mut()
        .for_each(|row| row.gbps.value *= factor);
    machine
}

#[test]
fn more_bandwidth_never_makes_a_step_slower() {
    let degrees = |x, y, z, data, pipeline| Degrees {
        x,
        y,
        z,
        context: 1,
        data,
        pipeline,
    };
    for grid in [
        degrees(2, 1, 2, 2, 1),
        degrees(1, 2, 4, 1, 1),
        degrees(2, 2, 1, 1, 2),
        degrees(1, 1, 2, 2, 2),
    ] {
        let config = config(grid, "1f1b");
        let step = |factor| {
            let outcomes = train(&faster_links(factor), &config, Some(stages(&config)));
            outcomes
                .iter()
                .map(|outcome| outcome.step_s)
                .fold(0.0, f64::max)
        };
        let times: Vec<f64> = [0.25, 0.5, 1.0, 2.0, 4.0].map(step).into();
        assert!(
            times.windows(2).all(|pair| pair[1] <= pair[0] * 1.001),
            "{grid:?}: {times:?}"
        );
        assert!(times[4] < times[0], "{grid:?}: {times:?}");
    }
}

#[test]
fn the_log_has_every_kind_of_work() {
    let config = config(pipelined(), "1f1b");
    let outcome = train(&perlmutter(), &config, Some(stages(&config))).remove(0);
    use Category::*;
    for category in [
        Matmuls,
        Attention,
        Elementwise,
        Optimiser,
        Collective,
        Message,
    ] {
        assert!(
            outcome.log.iter().any(|work| work.category == category),
            "{category:?}"
        );
    }
    assert!(outcome.log.iter().any(|work| work.gap.is_some()));
    let flop: f64 = outcome.log.iter().map(|work| work.flop).sum();
    assert_eq!(flop, outcome.breakdown.flop);
    for group in &outcome.breakdown.groups {
        let total: f64 = outcome
            .log
            .iter()
            .filter(|work| work.group.as_ref() == Some(&group.label))
            .map(|w| w.end_s - w.start_s)
            .sum();
        assert!((total - group.total_s).abs() < 1e-9, "{group:?}: {total}");
    }
}

// Seconds of a step whose weights the host updates, and the time for which it does so while the device still runs GEMMs.
fn updated_on_host(clip_norm: f64) -> (f64, f64) {
    let mut machine = perlmutter();
    // The device waits for nothing but its own work.
    machine.device.launch.host_us.value = 0.1;
    let mut config = config(Degrees::default(), "1f1b");
    edit_gpt(&mut config, |model| model.context = 1024);
    config.training.clip_norm = clip_norm;
    config.parallel.bucket_mib = 16;
    config.placement.optimiser = PlaceKind::Host;
    config.placement.update = UpdatePlace::Host;
    config.placement.piece_kib = 1024;
    let outcome = train(&machine, &config, None).remove(0);
    let ends = outcome.log.iter().filter(|work| work.name == "gemm");
    let last_gemm = ends.map(|work| work.end_s).fold(0.0, f64::max);
    let updates = outcome.log.iter().filter(|work| work.name == "adamw");
    let beside = updates.map(|work| (work.end_s.min(last_gemm) - work.start_s).max(0.0));
    (outcome.step_s, beside.sum())
}

#[test]
fn an_update_on_the_host_that_waits_for_no_norm_runs_beside_backward() {
    let (after_norm, none) = updated_on_host(1.0);
    assert_eq!(none, 0.0, "no gradient is final before the norm of all");
    let (sooner, beside) = updated_on_host(0.0);
    assert!(beside > 0.0);
    let saved = after_norm - sooner;
    // What is updated so early is rounded once more: 6 bytes of 30.
    assert!(
        saved > 0.7 * beside,
        "{saved} s of {after_norm} s saved, {beside} s beside backward"
    );
}
