//! The serial program is the oracle: every grid gives its losses and gradients.
//!
//! Sums over shards are taken in another order than in the serial program, so results differ only by rounding. In
//! f64, losses, norms and gradients are compared over four steps, of which three warm up (ten with
//! `FASCICLE_PARITY=all`). In f32, losses are compared, and gradients at equal weights. Later gradients belong to
//! different weights, because AdamW divides by the size of a gradient. It thus makes a full step from the rounding in a
//! gradient that is zero, such as that of a key's bias, which softmax does not see.

use families::GptFamily;
use grid::Degrees;
use parallel::{Overlap, data::Sharding};
use testkit::{
    Outcome, SCHEDULES, all_grids, difference, edit_gpt, grids, is_exhaustive, on, serial, train,
};
use train::{Config, config::Precision};

const F64: f64 = 1e-9;
const F32: f64 = 1e-4;

fn config(precision: Precision) -> Config {
    let mut config = testkit::config(precision);
    if !is_exhaustive() {
        // A rate at which so few steps lower the loss of every model.
        (config.training.steps, config.training.learning_rate) = (4, 4e-3);
    }
    config
}

fn check(config: &Config, expected: &Outcome, tolerance: f64) {
    let found = train(config);
    let difference = difference(&found, expected);
    let largest = match config.training.precision {
        Precision::F64 => difference.largest(),
        _ => difference.largest_at_equal_weights(),
    };
    assert!(
        largest <= tolerance,
        "grid {}: {difference}",
        config.parallel.grid
    );
}

// On every grid.
fn check_all(config: &Config, tolerance: f64) {
    check_on(all_grids(&[1, 2, 4, 8]), config, tolerance);
}

fn check_most(config: &Config, tolerance: f64) {
    check_on(grids(&[1, 2, 4, 8]), config, tolerance);
}

fn check_on(grids: Vec<Degrees>, config: &Config, tolerance: f64) {
    let expected = serial(config);
    assert!(
        expected.losses.last() < expected.losses.first(),
        "the model learns: {:?}",
        expected.losses
    );
    grids
        .into_iter()
        .for_each(|grid| check(&on(config, grid), &expected, tolerance));
}

fn llama(mut config: Config) -> Config {
    edit_gpt(&mut config, |model| model.family = GptFamily::Llama);
    edit_gpt(&mut config, |model| model.hidden = 64);
    edit_gpt(&mut config, |model| model.heads = 16);
    edit_gpt(&mut config, |model| model.kv_heads = 8);
    edit_gpt(&mut config, |model| model.mlp_hidden = 40);
    config
}

#[test]
fn gpt2_tied_with_dropout_in_f64() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    check_all(&config, F64);
}

#[test]
fn gpt2_untied_in_f64() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.tied_head = false);
    edit_gpt(&mut config, |model| model.pad_vocabulary_to = 16);
    check_most(&config, F64);
}

#[test]
fn llama_untied_with_dropout_in_f64() {
    let mut config = llama(config(Precision::F64));
    edit_gpt(&mut config, |model| model.tied_head = false);
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    check_most(&config, F64);
}

#[test]
fn llama_tied_recomputed_in_f64() {
    let mut config = llama(config(Precision::F64));
    config.training.recompute = true.into();
    check_all(&config, F64);
}

#[test]
fn gpt2_in_f32() {
    check_most(&config(Precision::F32), F32);
}

#[test]
fn qwen_3_in_f64() {
    let mut config = llama(config(Precision::F64));
    edit_gpt(&mut config, |model| {
        model.qk_norm = true;
        model.head_size = 6;
        model.dropout = 0.1;
    });
    check_most(&config, F64);
}

#[test]
fn gemma_in_f64() {
    let mut config = llama(config(Precision::F64));
    edit_gpt(&mut config, |model| model.family = GptFamily::Gemma);
    check_most(&config, F64);
}

#[test]
fn gemma_2_and_3_in_f64() {
    let mut config = llama(config(Precision::F64));
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::Gemma;
        model.qk_norm = true;
        model.post_norms = true;
        model.score_size = 12;
        model.local_blocks = 1;
        model.sliding_window = 3;
        model.local_rope_base = 100.0;
        model.score_cap = 0.7;
        model.logit_cap = 1.5;
        model.dropout = 0.1;
    });
    check_most(&config, F64);
}

fn gpt_neox(mut config: Config) -> Config {
    edit_gpt(&mut config, |model| {
        model.family = GptFamily::GptNeox;
        model.parallel_residual = true;
        model.rotary_size = 2;
        model.tied_head = false;
    });
    config
}

#[test]
fn gpt_neox_in_f64() {
    let mut config = gpt_neox(config(Precision::F64));
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    check_most(&config, F64);
}

#[test]
fn gpt_neox_one_after_the_other_recomputed_in_f64() {
    let mut config = gpt_neox(config(Precision::F64));
    config.training.recompute = true.into();
    edit_gpt(&mut config, |model| model.parallel_residual = false);
    check_most(&config, F64);
}

#[test]
fn llama_in_f32() {
    check_most(&llama(config(Precision::F32)), F32);
}

#[test]
fn every_schedule() {
    on_every_schedule(config(Precision::F64));
}

// A wire passes each attention by.
#[test]
fn every_schedule_of_blocks_in_parallel() {
    let mut config = gpt_neox(config(Precision::F64));
    config.training.recompute = true.into();
    on_every_schedule(config);
}

fn on_every_schedule(mut config: Config) {
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    config.training.micro_batches = 4;
    let expected = serial(&config);
    for schedule in SCHEDULES {
        for (x, z, data, pipeline) in [
            (1, 1, 1, 1),
            (1, 1, 1, 2),
            (1, 1, 1, 4),
            (2, 1, 1, 4),
            (2, 2, 1, 2),
            (1, 2, 2, 2),
        ] {
            let mut config = on(
                &config,
                Degrees {
                    x,
                    y: 1,
                    z,
                    context: 1,
                    data,
                    pipeline,
                },
            );
            config.parallel.schedule = schedule.parse().unwrap();
            check(&config, &expected, F64);
        }
    }
}

// With more than four stages and more micro-batches than stages, a message of one way of the V can wait for one of the other.
#[test]
fn a_v_of_six_stages() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.layers = 6);
    (config.training.batch, config.training.micro_batches) = (12, 12);
    let expected = serial(&config);
    let mut config = on(&config, "pipeline=6".parse().unwrap());
    config.parallel.schedule = "zb-v".parse().unwrap();
    check(&config, &expected, F64);
}

// Gradients of weights that were put off are added in the order in which 1F1B adds them.
#[test]
fn a_split_backward_gives_the_bits_of_1f1b() {
    for recompute in [false, true] {
        let mut config = llama(config(Precision::F32));
        config.training.micro_batches = 4;
        config.training.recompute = recompute.into();
        edit_gpt(&mut config, |model| model.dropout = 0.1);
        // A tied table would have its two uses on one stage of a V.
        edit_gpt(&mut config, |model| model.tied_head = false);
        for grid in [
            "pipeline=2",
            "pipeline=4",
            "x=2,z=2,pipeline=2",
            "y=2,data=2,pipeline=2",
        ] {
            let run = |schedule: &str| {
                let mut config = on(&config, grid.parse().unwrap());
                config.parallel.schedule = schedule.parse().unwrap();
                train(&config)
            };
            let expected = run("1f1b");
            for schedule in ["zb-h1", "zb-v"] {
                let found = run(schedule);
                assert_eq!(found.losses, expected.losses, "{grid}, {schedule}");
                assert_eq!(found.weights, expected.weights, "{grid}, {schedule}");
            }
        }
    }
}

#[test]
fn one_micro_batch_goes_through_a_pipeline() {
    let mut config = config(Precision::F64);
    config.training.micro_batches = 1;
    let expected = serial(&config);
    for pipeline in [2, 4, 8] {
        check(
            &on(
                &config,
                Degrees {
                    pipeline,
                    ..Degrees::default()
                },
            ),
            &expected,
            F64,
        );
    }
}

#[test]
fn every_overlap_switch_gives_the_same_bits() {
    let config = on(
        &config(Precision::F32),
        Degrees {
            x: 2,
            y: 1,
            z: 2,
            context: 1,
            data: 2,
            pipeline: 1,
        },
    );
    let with = |overlap: Overlap| {
        let mut config = config.clone();
        config.parallel.overlap.0 = overlap;
        train(&config)
    };
    let none = with(Overlap::NONE);
    let single = [
        Overlap {
            all_reduce: true,
            ..Overlap::NONE
        },
        Overlap {
            reduce_scatter: true,
            ..Overlap::NONE
        },
        Overlap {
            all_gather: true,
            ..Overlap::NONE
        },
        Overlap {
            all_gather: true,
            all_gather_forward: true,
            ..Overlap::NONE
        },
        Overlap {
            data: true,
            ..Overlap::NONE
        },
        Overlap::ALL,
    ];
    for overlap in single {
        let found = with(overlap);
        assert_eq!(found.losses, none.losses, "{overlap:?}");
        assert_eq!(found.gradients, none.gradients, "{overlap:?}");
    }
}

#[test]
fn sharded_optimiser_state_keeps_the_weights() {
    let config = config(Precision::F64);
    let expected = serial(&config);
    for (x, data, pipeline) in [(1, 2, 1), (1, 8, 1), (2, 2, 2), (1, 4, 2)] {
        let mut config = on(
            &config,
            Degrees {
                x,
                y: 1,
                z: 1,
                context: 1,
                data,
                pipeline,
            },
        );
        config.parallel.sharding = Sharding::Optimiser;
        let difference = difference(&train(&config), &expected);
        let largest = difference
            .loss
            .max(difference.norm)
            .max(difference.weight.0);
        assert!(
            largest <= F64,
            "grid {}: {difference}",
            config.parallel.grid
        );
    }
}

#[test]
fn kept_weights_small_buckets_and_checked_mode_keep_the_bits() {
    let config = on(
        &config(Precision::F32),
        Degrees {
            x: 2,
            y: 1,
            z: 2,
            context: 1,
            data: 2,
            pipeline: 1,
        },
    );
    let plain = train(&config);
    let mut other = config;
    other.parallel.keep_gathered = true;
    other.parallel.bucket_mib = 0;
    other.parallel.gather_budget_mib = 0;
    other.parallel.checked = true;
    let found = train(&other);
    assert_eq!(found.losses, plain.losses);
    assert_eq!(found.gradients, plain.gradients);
}

#[test]
fn checked_mode_compares_stages_that_share_a_table() {
    let config = on(
        &config(Precision::F32),
        Degrees {
            x: 2,
            y: 1,
            z: 1,
            context: 1,
            data: 2,
            pipeline: 2,
        },
    );
    let plain = train(&config);
    let mut checked = config;
    checked.parallel.checked = true;
    let found = train(&checked);
    assert_eq!(
        (found.losses, found.gradients),
        (plain.losses, plain.gradients)
    );
}

#[test]
fn the_same_grid_and_seed_give_the_same_bits() {
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        let config = on(
            &config(precision),
            Degrees {
                x: 2,
                y: 2,
                z: 1,
                context: 1,
                data: 1,
                pipeline: 2,
            },
        );
        let (first, second) = (train(&config), train(&config));
        assert_eq!(first.losses, second.losses, "{precision:?}");
        assert_eq!(first.weights, second.weights, "{precision:?}");
    }
}

#[test]
fn sixteen_bit_types_follow_the_f32_program() {
    let expected = serial(&config(Precision::F32));
    for (precision, tolerance) in [(Precision::Bf16, 2e-2), (Precision::F16, 5e-3)] {
        for grid in [
            Degrees::default(),
            Degrees {
                x: 2,
                y: 2,
                z: 2,
                ..Degrees::default()
            },
        ] {
            let difference = difference(&train(&on(&config(precision), grid)), &expected);
            assert!(
                difference.loss <= tolerance,
                "{precision:?} on {grid}: {difference}"
            );
        }
    }
}

#[test]
fn stages_of_any_depth_give_the_serial_results() {
    let config = config(Precision::F64);
    let expected = serial(&config);
    let segments = config.work().unwrap().segments.len();
    for (grid, schedule, ends) in [
        ("pipeline=2", "1f1b", vec![1]),
        ("z=2,pipeline=2", "gpipe", vec![segments - 1]),
        ("x=2,pipeline=3", "zb-h1", vec![1, segments - 1]),
        ("pipeline=2", "zb-v", vec![1, 2, segments - 1]),
    ] {
        let mut config = on(&config, grid.parse().unwrap());
        config.parallel.schedule = schedule.parse().unwrap();
        let mut depths = Vec::new();
        for end in ends.into_iter().chain([segments]) {
            depths.push(end - depths.iter().sum::<usize>());
        }
        config.parallel.stages = Some(depths);
        check(&config, &expected, F64);
    }
}
