//! Training on a GPU vendor gives the losses and gradients of the CPU vendor's serial program.
//!
//! The order of sums and the last digit of exponentials differ, so results differ by rounding alone.

use crate::{CUDA, CUDA_STAGED, ROCM, ROCM_STAGED, Way};
use families::{DocumentEnd, GptFamily};
use grid::Degrees;
use parallel::{ContextAttention, data::Sharding};
use std::time::Duration;
use testkit::{Difference, config, difference, edit_gpt, train, train_with};
use train::{
    Config,
    config::{PlaceKind, Precision},
};

const TIMEOUT: Duration = Duration::from_secs(60);
const F64: f64 = 1e-9;
const F32: f64 = 1e-4;
/// Steps: enough for weights that training has changed.
const STEPS: u64 = 4;

/// Grids of 1, 2, 4 and 8 ranks in which every axis has members, alone and with others.
const SOME: [&str; 12] = [
    "x=1",
    "x=2",
    "y=2",
    "z=2",
    "context=2",
    "data=2",
    "pipeline=2",
    "x=2,y=2",
    "z=2,data=2",
    "x=2,y=2,z=2",
    "x=2,z=2,context=2",
    "x=2,data=2,pipeline=2",
];

fn grids() -> Vec<Degrees> {
    if testkit::is_exhaustive() {
        return testkit::grids(&[1, 2, 4, 8]);
    }
    SOME.map(|text| text.parse().expect("a grid")).into()
}

fn short(precision: Precision) -> Config {
    let mut config = config(precision);
    config.training.steps = STEPS;
    config.training.warmup_steps = 1;
    config
}

fn llama() -> Config {
    let mut config = short(Precision::F64);
    edit_gpt(&mut config, |model| model.family = GptFamily::Llama);
    edit_gpt(&mut config, |model| model.hidden = 64);
    edit_gpt(&mut config, |model| model.heads = 16);
    edit_gpt(&mut config, |model| model.kv_heads = 8);
    edit_gpt(&mut config, |model| model.mlp_hidden = 40);
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    config
}

/// A head size and types that go through the matrix units.
fn half_precision(precision: Precision) -> Config {
    let mut config = short(precision);
    edit_gpt(&mut config, |model| model.layers = 2);
    edit_gpt(&mut config, |model| model.hidden = 128);
    edit_gpt(&mut config, |model| model.heads = 2);
    edit_gpt(&mut config, |model| model.context = 40);
    config.training.batch = 4;
    config
}

/// Trains on these grids, and compares what `largest` takes of the difference from the CPU's serial program with
/// `tolerance`.
fn check(
    way: Way,
    config: &Config,
    grids: &[Degrees],
    largest: fn(&Difference) -> f64,
    tolerance: f64,
) {
    if !way.is_asked("parity") {
        return;
    }
    let expected = train(config);
    for grid in grids
        .iter()
        .filter(|grid| way.has_devices(grid.world_size().unwrap_or(usize::MAX)))
    {
        let mut config = config.clone();
        config.parallel.grid = *grid;
        let difference = difference(&train_with(&config, way.open), &expected);
        let (vendor, collectives) = (way.vendor, way.collectives);
        assert!(
            largest(&difference) <= tolerance,
            "{vendor}, {collectives:?}, grid {grid}: {difference}"
        );
    }
}

fn check_f32(way: Way) {
    check(
        way,
        &short(Precision::F32),
        &grids(),
        Difference::largest_at_equal_weights,
        F32,
    );
}

fn check_f64(way: Way) {
    let few = [
        Degrees {
            x: 2,
            ..Degrees::default()
        },
        Degrees {
            x: 2,
            y: 2,
            z: 2,
            ..Degrees::default()
        },
    ];
    check(way, &llama(), &few, Difference::largest, F64);
}

fn check_half(way: Way) {
    let few = ["x=1", "x=2,z=2", "context=2"].map(|grid| grid.parse().unwrap());
    for (precision, tolerance) in [(Precision::Bf16, 2e-2), (Precision::F16, 5e-3)] {
        check(
            way,
            &half_precision(precision),
            &few,
            |difference| difference.loss,
            tolerance,
        );
    }
}

/// Queues below which the messages of some schedules could wait for each other: one for collectives, and one for each kind.
const ALL_QUEUES: usize = 5;

/// The device and the queues on which a schedule cannot run are named before anything waits.
fn check_refused(way: Way, mut config: Config, queues: usize) {
    config.parallel.grid = "pipeline=2".parse().unwrap();
    let built = testkit::try_ranks_with(TIMEOUT, 2, way.open, move |world, device| {
        let context = config.context(&world, &device)?;
        config.trainer(&context).map(drop)
    });
    let report = built.unwrap_err();
    let found = format!(
        "{queues} hardware queues, of which {} for messages",
        queues - 1
    );
    assert!(report.contains(&found), "{report}");
}

/// Every way of micro-batches through the stages, alone and on stages of several ranks.
fn check_schedules(way: Way) {
    if !way.is_asked("schedules") {
        return;
    }
    let queues = (way.open)(0).unwrap().num_queues().unwrap_or(usize::MAX);
    for schedule in testkit::SCHEDULES {
        let mut config = short(Precision::F32);
        config.training.micro_batches = 4;
        config.parallel.schedule = schedule.parse().unwrap();
        if queues < ALL_QUEUES && (schedule == "zb-v" || schedule.starts_with("message-driven")) {
            check_refused(way, config, queues);
            continue;
        }
        let grids = [
            "pipeline=2",
            "x=2,pipeline=2",
            "pipeline=4",
            "z=2,data=2,pipeline=2",
        ];
        let grids = grids.map(|grid| grid.parse().unwrap());
        check(
            way,
            &config,
            &grids,
            Difference::largest_at_equal_weights,
            F32,
        );
    }
}

/// Vectors spread over X, evenly and unevenly.
fn check_spread(way: Way) {
    for context in [8, 7] {
        let mut config = short(Precision::F32);
        edit_gpt(&mut config, |model| model.context = context);
        let grids = ["x=2", "x=4,data=2", "x=2,z=2,pipeline=2"];
        let grids = grids.map(|grid| grid.parse().unwrap());
        config.parallel.sequence_parallel = true;
        let largest = Difference::largest_at_equal_weights;
        check(way, &config, &grids, largest, F32);
    }
}

/// Tokens of every sequence over Context, evenly and unevenly, with keys gathered and passed on, and with heads exchanged.
fn check_tokens(way: Way) {
    for (tokens, attention) in [
        (8, ContextAttention::Gather),
        (7, ContextAttention::Gather),
        (8, ContextAttention::Heads),
        (7, ContextAttention::RING),
    ] {
        let mut config = short(Precision::F32);
        edit_gpt(&mut config, |model| {
            (model.context, model.dropout) = (tokens, 0.1)
        });
        config.parallel.context_attention = attention;
        let grids = ["context=2", "x=2,context=2,pipeline=2"].map(|grid| grid.parse().unwrap());
        let largest = Difference::largest_at_equal_weights;
        check(way, &config, &grids, largest, F32);
    }
}

/// Several documents in a sequence, on plain kernels and on matrix units, with keys gathered and with heads exchanged.
fn check_documents(way: Way) {
    let packed = |mut config: Config| {
        edit_gpt(&mut config, |model| {
            (model.vocabulary, model.document_end) = (8, DocumentEnd(Some(5)))
        });
        config
    };
    for attention in [ContextAttention::Gather, ContextAttention::Heads] {
        let mut config = packed(short(Precision::F32));
        edit_gpt(&mut config, |model| {
            (model.context, model.dropout) = (16, 0.1)
        });
        config.parallel.context_attention = attention;
        let grids = ["x=1", "x=2,context=2,pipeline=2"].map(|grid| grid.parse().unwrap());
        let largest = Difference::largest_at_equal_weights;
        check(way, &config, &grids, largest, F32);
    }
    let grids = ["x=1", "context=2"].map(|grid| grid.parse().unwrap());
    let config = packed(half_precision(Precision::Bf16));
    check(way, &config, &grids, |difference| difference.loss, 2e-2);
}

/// The optimiser's state beyond the device, in pieces that cut parameters, alone and with weights and gradients.
fn check_placed(way: Way) {
    const D: PlaceKind = PlaceKind::Device;
    const H: PlaceKind = PlaceKind::Host;
    const F: PlaceKind = PlaceKind::Files;
    for [optimiser, weights, gradients] in [[F, D, D], [H, F, H], [D, H, F]] {
        let mut config = short(Precision::F32);
        (config.placement.optimiser, config.placement.piece_kib) = (optimiser, 1);
        (config.placement.weights, config.placement.gradients) = (weights, gradients);
        config.parallel.sharding = Sharding::Optimiser;
        let grids = ["x=1", "x=2,data=2"].map(|grid| grid.parse().unwrap());
        let largest = Difference::largest_at_equal_weights;
        check(way, &config, &grids, largest, F32);
    }
}

/// Activations beyond the device, in pieces that cut tensors, with micro-batches in flight and a backward that is split.
fn check_activations(way: Way) {
    for (place, recompute, grid) in [
        (PlaceKind::Host, false, "x=2,pipeline=2"),
        (PlaceKind::Files, true, "x=2,z=2"),
    ] {
        let mut config = short(Precision::F32);
        (config.placement.activations, config.placement.piece_kib) = (place.into(), 1);
        config.training.recompute = recompute.into();
        config.parallel.schedule = "zb-h1".parse().unwrap();
        let grids = [grid.parse().unwrap()];
        let largest = Difference::largest_at_equal_weights;
        check(way, &config, &grids, largest, F32);
    }
}

/// Gradients in shards, of several micro-batches, and of weights that a stage puts off.
fn check_shards(way: Way) {
    let mut config = short(Precision::F32);
    config.parallel.sharding = Sharding::Gradients;
    let largest = Difference::largest_at_equal_weights;
    let grids = ["data=2", "x=2,z=2,data=2"].map(|grid| grid.parse().unwrap());
    check(way, &config, &grids, largest, F32);
    config.parallel.schedule = "zb-h1".parse().unwrap();
    let grids = ["data=2,pipeline=2".parse().unwrap()];
    check(way, &config, &grids, largest, F32);
}

macro_rules! parity {
    ($name:ident, $way:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn gpt2_in_f32() {
                check_f32($way);
            }

            #[test]
            fn llama_with_dropout_in_f64() {
                check_f64($way);
            }

            #[test]
            fn every_schedule() {
                check_schedules($way);
            }

            #[test]
            fn spread_vectors() {
                check_spread($way);
            }

            #[test]
            fn tokens_over_context() {
                check_tokens($way);
            }

            #[test]
            fn packed_documents() {
                check_documents($way);
            }

            #[test]
            fn state_beyond_the_device() {
                check_placed($way);
            }

            #[test]
            fn activations_beyond_the_device() {
                check_activations($way);
            }

            #[test]
            fn gradients_in_shards() {
                check_shards($way);
            }

            #[test]
            fn matrix_units_in_bf16_and_f16() {
                check_half($way);
            }
        }
    };
}

parity!(cuda, CUDA);
parity!(cuda_staged, CUDA_STAGED);
parity!(rocm, ROCM);
parity!(rocm_staged, ROCM_STAGED);
