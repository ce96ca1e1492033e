//! Updates on the host's processors have the bits of the device's: the same operations in the same order, none contracted.

use crate::{CUDA, CUDA_STAGED, ROCM, Way};
use parallel::data::{Sharding, UpdatePlace};
use testkit::{bits, config, train_with};
use train::config::{OptimiserKind, PlaceKind, Precision};

fn check(way: Way, optimiser: OptimiserKind, precision: Precision, grid: &str) {
    let mut config = config(precision);
    config.training.optimiser = optimiser;
    config.training.momentum = 0.9;
    config.training.steps = 3;
    config.training.warmup_steps = 1;
    config.parallel.grid = grid.parse().expect("a grid");
    config.parallel.sharding = Sharding::Optimiser;
    let ranks = config
        .parallel
        .grid
        .world_size()
        .expect("a number of ranks");
    if !way.is_asked("updates on the host") || !way.has_devices(ranks) {
        return;
    }
    let on_device = train_with(&config, way.open);
    config.placement.update = UpdatePlace::Host;
    config.placement.piece_kib = 1;
    for place in [PlaceKind::Host, PlaceKind::Files] {
        config.placement.optimiser = place;
        let what = format!("{} with {optimiser:?}, {grid}", way.vendor);
        bits::check(&train_with(&config, way.open), &on_device, &what);
    }
}

#[test]
fn every_rule_of_elements_has_the_bits_of_the_device() {
    for way in [CUDA, ROCM] {
        for optimiser in [
            OptimiserKind::AdamW,
            OptimiserKind::Sgd,
            OptimiserKind::Lion,
        ] {
            check(way, optimiser, Precision::F32, "x=1");
            check(way, optimiser, Precision::Bf16, "x=1");
        }
    }
}

#[test]
fn so_it_has_on_several_ranks() {
    for way in [CUDA, CUDA_STAGED, ROCM] {
        check(way, OptimiserKind::AdamW, Precision::F32, "z=2,data=2");
    }
}
