//! With `training.reproducible = "grid"`, every grid gives the bits of the same vendor's serial run: losses, norms, gradients and
//! weights.
//!
//! `FASCICLE_BITS=all` trains more models on more grids.

use crate::{CUDA, CUDA_STAGED, ROCM, ROCM_STAGED, Way};
use families::GptFamily;
use grid::Degrees;
use parallel::{Reproducible, data::Sharding};
use testkit::{bits::check, config, edit_gpt, on, train_with};
use train::{
    Config,
    config::{OptimiserKind, Precision},
};

fn everything() -> bool {
    std::env::var_os("FASCICLE_BITS").is_some_and(|value| value == "all")
}

/// Tied weights, dropout, clipped gradients.
fn gpt2(precision: Precision) -> Config {
    let mut config = config(precision);
    config.training.reproducible = Reproducible::Grid.into();
    config.training.steps = 2;
    config.training.warmup_steps = 1;
    config.training.batch = 8;
    edit_gpt(&mut config, |model| {
        model.layers = 2;
        model.dropout = 0.1;
    });
    config
}

fn llama(precision: Precision) -> Config {
    let mut config = gpt2(precision);
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Llama;
        model.tied_head = false;
        model.hidden = 64;
        model.heads = 8;
        model.kv_heads = 4;
        model.mlp_hidden = 80;
    });
    config
}

/// Heads that go through the matrix units.
fn long_heads(precision: Precision) -> Config {
    let mut config = gpt2(precision);
    edit_gpt(&mut config, |model| {
        model.hidden = 128;
        model.heads = 2;
        model.context = 20;
    });
    config
}

/// Sizes that three ranks share.
fn of_threes(precision: Precision) -> Config {
    let mut config = gpt2(precision);
    edit_gpt(&mut config, |model| {
        model.hidden = 96;
        model.heads = 6;
    });
    config.training.batch = 12;
    config.training.micro_batches = 1;
    config
}

const FEW: &str = "x=2 y=2 z=2 data=2 pipeline=2 x=2,y=2 z=2,data=2";

fn trained(way: Way, config: &Config) -> testkit::Outcome {
    train_with(config, way.canonical)
}

/// Trains on the grids in the text, with all numbers of micro-batches, and compares with one rank.
fn check_all(way: Way, config: &Config, grids: &str, micro_batches: &[usize]) {
    if !way.is_asked("bits") {
        return;
    }
    let expected = trained(way, &on(config, Degrees::default()));
    assert!(
        expected.losses.last() < expected.losses.first(),
        "the model learns: {:?}",
        expected.losses
    );
    for (grid, &micro_batches) in grids
        .split(' ')
        .flat_map(|grid| micro_batches.iter().map(move |number| (grid, number)))
    {
        let degrees: Degrees = grid.parse().unwrap();
        if !way.has_devices(degrees.world_size().unwrap_or(usize::MAX)) {
            continue;
        }
        let mut config = on(config, degrees);
        config.training.micro_batches = micro_batches;
        let (vendor, collectives) = (way.vendor, way.collectives);
        let what = format!("{vendor}, {collectives:?}, {grid}, {micro_batches} micro-batches");
        check(&trained(way, &config), &expected, &what);
    }
}

macro_rules! bits {
    ($name:ident, $way:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn gpt2_in_f32() {
                check_all($way, &gpt2(Precision::F32), FEW, &[2]);
            }

            #[test]
            fn llama_in_bf16() {
                check_all(
                    $way,
                    &llama(Precision::Bf16),
                    "x=2,y=2 z=2,pipeline=2",
                    &[2],
                );
            }

            #[test]
            fn matrix_units_in_bf16() {
                check_all($way, &long_heads(Precision::Bf16), "x=2 z=2,data=2", &[2]);
            }

            #[test]
            fn other_optimisers() {
                for optimiser in [
                    OptimiserKind::Adafactor,
                    OptimiserKind::AdamW8bit,
                    OptimiserKind::Lion,
                    OptimiserKind::Muon,
                ] {
                    let mut config = gpt2(Precision::Bf16);
                    config.training.optimiser = optimiser;
                    (config.training.learning_rate, config.training.muon_rate) = (3e-3, 0.01);
                    config.parallel.sharding = Sharding::Optimiser;
                    check_all($way, &config, "x=2,y=2 z=2,data=2", &[1]);
                }
            }

            #[test]
            fn three_ranks() {
                let config = of_threes(Precision::F32);
                check_all($way, &config, "x=3 y=3 z=3 data=3", &[1]);
            }

            #[test]
            fn spread_vectors() {
                let mut config = gpt2(Precision::F32);
                config.parallel.sequence_parallel = true;
                check_all($way, &config, "x=2 x=2,y=2", &[2]);
                let mut config = of_threes(Precision::F32);
                config.parallel.sequence_parallel = true;
                check_all($way, &config, "x=3", &[1]);
            }

            #[test]
            fn gradients_in_shards() {
                let mut config = gpt2(Precision::Bf16);
                config.parallel.sharding = Sharding::Gradients;
                check_all($way, &config, "data=2 z=2,data=2", &[1, 2]);
                let mut config = of_threes(Precision::F32);
                config.parallel.sharding = Sharding::Gradients;
                check_all($way, &config, "data=3", &[1]);
            }

            #[test]
            fn every_number_of_micro_batches() {
                check_all($way, &gpt2(Precision::F32), "x=1 z=2", &[1, 2, 4]);
            }

            #[test]
            fn all_types_and_models() {
                if !everything() {
                    return;
                }
                for precision in [
                    Precision::F32,
                    Precision::F64,
                    Precision::Bf16,
                    Precision::F16,
                ] {
                    for model in [gpt2, llama, long_heads] {
                        let grids = format!("{FEW} x=2,y=2,z=2 y=2,data=2,pipeline=2");
                        check_all($way, &model(precision), &grids, &[2]);
                    }
                    let grids = "x=3 y=3 z=3 data=3 pipeline=3 y=3,data=2 z=6 x=6";
                    check_all($way, &of_threes(precision), grids, &[1]);
                }
            }
        }
    };
}

bits!(cuda, CUDA);
bits!(cuda_staged, CUDA_STAGED);
bits!(rocm, ROCM);
bits!(rocm_staged, ROCM_STAGED);
