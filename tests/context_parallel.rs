//! Context parallelism gives the serial losses and gradients, and to the bit where that is asked, on every grid.

use ::train::{Config, config::Precision};
use families::GptFamily;
use grid::{Axis, Degrees, factorisations};
use parallel::{ContextAttention, Operation, Reproducible, counters::Subject, data::Sharding};
use testkit::{
    Outcome, SCHEDULES, bits, config, difference, edit_gpt, grids, in_turn, is_exhaustive, on,
    serial, train,
};

const F64: f64 = 1e-9;

fn check(config: &Config, grid: Degrees, expected: &Outcome) {
    let difference = difference(&train(&on(config, grid)), expected);
    assert!(difference.largest() <= F64, "grid {grid}: {difference}");
}

// The grids of up to 8 ranks on which Context cuts sequences. Unless the tests are exhaustive, of those that cut it in two on 8 ranks
// the ones that are told of every test: 4 ranks have the others' degrees.
fn cutting_grids() -> Vec<Degrees> {
    let told = grids(&[8]);
    let all = [2, 4, 8].into_iter().flat_map(factorisations);
    let cutting: Vec<Degrees> = all
        .filter(|grid| grid.context > 1)
        .filter(|grid| {
            is_exhaustive() || grid.context > 2 || grid.world_size() != Ok(8) || told.contains(grid)
        })
        .collect();
    assert_eq!(cutting.len(), if is_exhaustive() { 28 } else { 16 });
    cutting
}

fn check_all(config: &Config) {
    let expected = serial(config);
    cutting_grids()
        .into_iter()
        .for_each(|grid| check(config, grid, &expected));
}

// As `check_all`, on up to 4 ranks.
fn check_small(config: &Config) {
    let expected = serial(config);
    let small = cutting_grids()
        .into_iter()
        .filter(|grid| grid.world_size().unwrap() <= 4);
    small.for_each(|grid| check(config, grid, &expected));
}

fn gpt2(precision: Precision) -> Config {
    let mut config = config(precision);
    config.training.steps = 4;
    edit_gpt(&mut config, |model| {
        (model.context, model.dropout) = (16, 0.2)
    });
    config
}

fn llama(precision: Precision) -> Config {
    let mut config = gpt2(precision);
    edit_gpt(&mut config, |model| {
        (model.family, model.tied_head) = (GptFamily::Llama, false);
        (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
        (model.mlp_hidden, model.dropout) = (80, 0.1);
    });
    config
}

#[test]
fn gpt2_tied_with_dropout() {
    check_all(&gpt2(Precision::F64));
}

#[test]
fn llama_recomputed_with_spread_vectors_and_sharded_gradients() {
    let mut config = llama(Precision::F64);
    config.training.recompute = true.into();
    config.parallel.sequence_parallel = true;
    config.parallel.sharding = Sharding::Gradients;
    check_all(&config);
}

#[test]
fn tokens_exchanged_for_heads() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        config.parallel.context_attention = ContextAttention::Heads;
        let expected = serial(&config);
        for recompute in [false, true] {
            config.training.recompute = recompute.into();
            for grid in [
                "context=2",
                "context=8",
                "x=2,context=4",
                "z=2,context=2,data=2",
            ] {
                check(&config, grid.parse().unwrap(), &expected);
            }
        }
    }
}

#[test]
fn heads_that_cannot_be_exchanged_are_refused() {
    let mut config = llama(Precision::F64);
    config.parallel.context_attention = ContextAttention::Heads;
    config.parallel.grid = "x=2,context=8".parse().unwrap();
    let refused = testkit::try_ranks(16, move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        let batch = testkit::fixed_batch(&trainer, &config, 0)?;
        trainer.step(&batch).map(drop)
    });
    let report = refused.unwrap_err();
    let found = "8 heads and 4 of keys on a rank of x, needs multiples of the 8 ranks";
    assert!(report.contains(found), "{report}");
}

const RING_OF_TWO: ContextAttention = ContextAttention::Ring { exchange: 2 };

#[test]
fn keys_passed_from_rank_to_rank() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        config.parallel.context_attention = ContextAttention::RING;
        match is_exhaustive() {
            true => check_all(&config),
            false => check_small(&config),
        }
        let expected = serial(&config);
        config.training.recompute = true.into();
        config.parallel.sequence_parallel = true;
        for grid in ["context=4", "context=3,data=2", "x=2,context=2,pipeline=2"] {
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

#[test]
fn keys_passed_between_ranks_that_exchange_heads() {
    let models = [gpt2(Precision::F64), llama(Precision::F64)];
    for (case, mut config) in models.into_iter().enumerate() {
        let expected = serial(&config);
        for (grid, exchange) in [
            ("context=4", 2),
            ("context=8", 2),
            ("context=8", 4),
            ("context=8", 8),
            ("x=2,context=4", 2),
            ("context=4,pipeline=2", 2),
        ] {
            config.parallel.context_attention = ContextAttention::Ring { exchange };
            for recompute in in_turn(case, [false, true]) {
                config.training.recompute = recompute.into();
                check(&config, grid.parse().unwrap(), &expected);
            }
        }
    }
}

// Of 16 tokens, which eight ranks cut in 16 chunks: windows of one token, over several chunks, and of all but one token. With the
// shorter ones, ranks of a ring receive keys that none of their queries meets.
#[test]
fn windows_of_attention() {
    for (mut config, window) in [
        (gpt2(Precision::F64), 1),
        (llama(Precision::F64), 3),
        (llama(Precision::F64), 15),
    ] {
        let open = serial(&config);
        edit_gpt(&mut config, |model| {
            model.sliding_window = window;
            if model.family == GptFamily::Llama {
                (model.local_blocks, model.local_rope_base) = (1, 100.0);
            }
        });
        let expected = serial(&config);
        assert!(difference(&expected, &open).largest() > 1e-6);
        for way in [
            ContextAttention::Gather,
            ContextAttention::Heads,
            ContextAttention::RING,
            RING_OF_TWO,
        ] {
            config.parallel.context_attention = way;
            let grids = match way == ContextAttention::RING {
                true => &["context=8", "x=2,context=2,pipeline=2"][..],
                false => &["context=4"],
            };
            for grid in grids {
                check(&config, grid.parse().unwrap(), &expected);
            }
        }
    }
}

// Sums over blocks are kept in f32, so 16-bit results are rounded once, as those of one rank.
#[test]
fn half_precision_in_a_ring_is_near_that_of_one_rank() {
    let mut config = llama(Precision::Bf16);
    let expected = serial(&config);
    let gathered = difference(
        &train(&on(&config, "context=4".parse().unwrap())),
        &expected,
    );
    for way in [ContextAttention::RING, RING_OF_TWO] {
        config.parallel.context_attention = way;
        let passed = difference(
            &train(&on(&config, "context=4".parse().unwrap())),
            &expected,
        );
        assert!(
            passed.largest() < 2.0 * gathered.largest(),
            "{way}: {passed}, gathered: {gathered}"
        );
    }
}

const OPERATIONS: [Operation; 4] = [
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllToAll,
    Operation::Send,
];

// The bytes on Context of a rank, as the planner's formulas have them.
#[test]
fn keys_values_and_gradients_move_what_the_formulas_say() {
    for (grid, recompute) in [
        ("context=2", false),
        ("context=4", true),
        ("x=2,context=2,data=2", false),
        ("z=2,context=2,pipeline=2", true),
    ] {
        for way in [
            ContextAttention::Gather,
            ContextAttention::Heads,
            ContextAttention::RING,
            RING_OF_TWO,
        ] {
            let mut config = llama(Precision::F64);
            config.training.steps = 1;
            config.training.recompute = recompute.into();
            config.parallel.context_attention = way;
            config.parallel.grid = grid.parse().unwrap();
            let ranks = config.parallel.grid.world_size().unwrap();
            let stages = config.parallel.grid.pipeline;
            let volumes = ::train::placement::volumes(&config).unwrap();
            let counters = train(&config).counters;
            let mut kinds = 0;
            for operation in OPERATIONS {
                let of_formula = volumes.iter().filter(|volume| {
                    (volume.subject, volume.operation) == (Subject::Attention, operation)
                });
                let expected: u64 = of_formula.map(|volume| volume.bytes).sum();
                let of_rank = |counters: &parallel::Counters| {
                    counters
                        .get(Axis::Context, operation, Subject::Attention)
                        .bytes
                };
                let all: u64 = counters.iter().map(of_rank).sum();
                let found = all * stages as u64 / ranks as u64;
                assert_eq!(found, expected, "{grid}, {way}, {operation:?}");
                kinds += usize::from(expected > 0);
            }
            assert!(kinds > 0, "{grid}, {way}");
        }
    }
}

#[test]
fn every_schedule() {
    let mut config = gpt2(Precision::F64);
    config.training.micro_batches = 4;
    let expected = serial(&config);
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        for grid in ["context=2,pipeline=2", "x=2,context=2,pipeline=2"] {
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

// 7 tokens in chunks of 2 and 1 on context=2, of 2, 1 and 1 on context=3; and runs of these over X.
#[test]
fn tokens_that_context_does_not_divide() {
    for mut config in [gpt2(Precision::F64), llama(Precision::F64)] {
        edit_gpt(&mut config, |model| model.context = 7);
        config.parallel.sequence_parallel = true;
        let expected = serial(&config);
        for grid in ["context=2", "context=3", "x=2,context=3", "z=2,context=2"] {
            for micro_batches in [1, 2] {
                config.training.micro_batches = micro_batches;
                check(&config, grid.parse().unwrap(), &expected);
            }
        }
        for way in [ContextAttention::Heads, ContextAttention::RING, RING_OF_TWO] {
            config.parallel.context_attention = way;
            check(&config, "context=2".parse().unwrap(), &expected);
        }
        config.parallel.context_attention = ContextAttention::RING;
        for grid in ["context=3", "x=2,context=3"] {
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

fn check_bits(mut config: Config, grids: &[Degrees]) {
    config.training.reproducible = Reproducible::Grid.into();
    let expected = serial(&config);
    for grid in grids {
        bits::check(&train(&on(&config, *grid)), &expected, &grid.to_string());
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    check_bits(gpt2(Precision::F32), &cutting_grids());
}

#[test]
fn half_precision_has_the_bits_of_one_rank() {
    let mut config = llama(Precision::Bf16);
    config.training.recompute = true.into();
    config.parallel.sequence_parallel = true;
    let grids = [
        "context=4",
        "x=2,context=2",
        "y=2,z=2,context=2",
        "context=2,data=2,pipeline=2",
    ];
    check_bits(config, &grids.map(|grid| grid.parse().unwrap()));
}
