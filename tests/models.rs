//! The examples' models other than GPT, on every grid of up to 8 ranks, and planned for Frontier.
// Each example is a program and includes its helper.
#![allow(clippy::duplicate_mod)]

#[allow(dead_code)]
#[path = "../examples/12_image_and_text.rs"]
mod pair;
#[allow(dead_code)]
#[path = "../examples/10_residual_classifier.rs"]
mod residual;
#[allow(dead_code)]
#[path = "../examples/11_skip_encoder.rs"]
mod skips;

use fascicle::{grid::machine::Machine, prelude::*, train::blueprint::Blueprint};
use testing::{Check, Report, check};

// Each model has fewer than 8 segments, so exactly the grids with too many stages are reported as skipped.
fn passes(what: &str, report: &Report, num_segments: usize) {
    println!("{what}: {report}");
    assert!(
        report
            .skipped
            .iter()
            .all(|degrees| degrees.pipeline > num_segments)
    );
    assert_eq!(report.grids.len() + report.skipped.len(), 56, "{what}");
}

#[test]
fn a_residual_classifier_trains_alike_on_every_grid() {
    let options = Check {
        recompute: true,
        sharded_optimiser: true,
        ..Check::default()
    };
    let report = check(residual::Classifier::new, residual::rings, &options);
    passes("residual classifier", &report.unwrap(), 6);
}

#[test]
fn an_encoder_with_skips_trains_alike_on_every_grid() {
    let options = Check {
        schedule: ScheduleKind::MessageDriven { in_flight: None },
        ..Check::default()
    };
    let report = check(skips::Encoder::new, skips::waves, &options);
    passes("encoder with skips", &report.unwrap(), 8);
}

#[test]
fn a_pair_of_towers_trains_alike_on_every_grid() {
    let report = check(pair::Pair::new, pair::pairs, &Check::default());
    passes("pair of towers", &report.unwrap(), 3);
}

fn planned(blueprint: Blueprint) -> f64 {
    let machine = Machine::find("frontier").unwrap();
    let plan = plan::plan(blueprint, &machine, 64).unwrap();
    assert_eq!(plan.best[0].candidate.degrees.world_size().unwrap(), 64);
    plan.best[0].step_s
}

#[test]
fn the_planner_has_a_grid_for_each() {
    let residual = Blueprint::new("residual", residual::Classifier::new)
        .column("point", &[2], vec![0.0f32; 2])
        .column("label", &[], vec![0u32]);
    let skips = Blueprint::new("skips", skips::Encoder::new)
        .column("noisy", &[32], vec![0.0f32; 32])
        .column("clean", &[32], vec![0.0f32; 32]);
    let pair = Blueprint::new("pair", pair::Pair::new)
        .column("image", &[4, 6], vec![0.0f32; 24])
        .column("captions", &[3, 5], vec![0u32; 15])
        .column("fits", &[], vec![0u32])
        .column("class", &[], vec![0u32]);
    for blueprint in [residual, skips, pair] {
        let step_s = planned(blueprint);
        assert!(step_s > 0.0 && step_s < 1.0, "{step_s}");
    }
}
