//! Sequence parallelism gives the serial losses and gradients, to the bit where that is asked, moves the bytes of its formulas, and keeps 1/Gx of what
//! lies between layers.

use ::train::{Config, config::Precision};
use families::GptFamily;
use grid::{Axis, Degrees};
use parallel::{Operation, Reproducible, counters::Subject, data::Sharding};
use testkit::{
    Outcome, SCHEDULES, bits, config, difference, edit_gpt, gpt, grids, is_exhaustive, serial,
    train,
};

const F64: f64 = 1e-9;

fn check(config: &Config, grid: Degrees, expected: &Outcome) {
    let mut config = config.clone();
    (config.parallel.grid, config.parallel.sequence_parallel) = (grid, true);
    let difference = difference(&train(&config), expected);
    assert!(difference.largest() <= F64, "grid {grid}: {difference}");
}

// The grids of up to 8 ranks on which X spreads vectors.
fn spread_grids() -> Vec<Degrees> {
    let grids = grids(&[2, 4, 8]).into_iter();
    let spread: Vec<Degrees> = grids.filter(|grid| grid.x > 1).collect();
    assert_eq!(spread.len(), if is_exhaustive() { 27 } else { 5 });
    spread
}

fn check_all(config: &Config) {
    let expected = serial(config);
    spread_grids()
        .into_iter()
        .for_each(|grid| check(config, grid, &expected));
}

fn llama(config: &mut Config) {
    edit_gpt(config, |model| {
        (model.family, model.tied_head) = (GptFamily::Llama, false);
        (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
        model.mlp_hidden = 40;
    });
}

#[test]
fn gpt2_tied_with_dropout() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    check_all(&config);
}

#[test]
fn llama_recomputed_with_sharded_state() {
    let mut config = config(Precision::F64);
    llama(&mut config);
    config.training.recompute = true.into();
    config.parallel.sharding = Sharding::Optimiser;
    check_all(&config);
}

#[test]
fn every_schedule() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    config.training.micro_batches = 4;
    let expected = serial(&config);
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        for grid in ["x=2,pipeline=2", "x=2,z=2,pipeline=2", "x=2,pipeline=4"] {
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

// As every other way to run, with `training.reproducible = "grid"`.
fn check_bits(mut config: Config, grids: &[Degrees]) {
    config.training.reproducible = Reproducible::Grid.into();
    config.training.steps = 4;
    let expected = serial(&config);
    for grid in grids {
        let mut config = config.clone();
        (config.parallel.grid, config.parallel.sequence_parallel) = (*grid, true);
        bits::check(&train(&config), &expected, &grid.to_string());
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    let mut config = config(Precision::F32);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    check_bits(config, &spread_grids());
}

#[test]
fn recomputed_half_precision_has_the_bits_of_one_rank() {
    for precision in [Precision::Bf16, Precision::F16] {
        let mut config = config(precision);
        llama(&mut config);
        // Leaves that end where shards do.
        edit_gpt(&mut config, |model| model.mlp_hidden = 80);
        config.training.recompute = true.into();
        let grids = ["x=2", "x=8", "x=2,y=2,z=2", "x=2,data=2,pipeline=2"];
        check_bits(config, &grids.map(|grid| grid.parse().unwrap()));
    }
}

// 7 tokens in a row, and micro-batches of 1 or 2 rows: runs of 3 or 4 vectors on x=2, of 1 or 2 on x=4.
#[test]
fn vectors_that_x_does_not_divide() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.context = 7);
    let expected = serial(&config);
    for grid in ["x=2", "x=4", "x=2,z=2", "x=2,y=2,pipeline=2", "x=4,data=2"] {
        for micro_batches in [1, 2] {
            config.training.micro_batches = micro_batches;
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

// With u the bytes of all vectors between layers on a rank of Z and Y, and L blocks: layers that read u sum their input's
// gradient, and gather their input forward and, unless it has just been recomputed, again; layers that emit u sum it,
// and gather its gradient.
#[test]
fn sums_and_gathers_move_what_the_formulas_say() {
    for (grid, recompute) in [
        ("x=2", false),
        ("x=2", true),
        ("x=4,y=2", false),
        ("x=2,z=2,pipeline=2", true),
    ] {
        let mut config = config(Precision::F64);
        config.training.steps = 1;
        config.training.recompute = recompute.into();
        config.parallel.grid = grid.parse().unwrap();
        let Degrees { x, y, z, .. } = config.parallel.grid;
        let model = gpt(&config).clone();
        let vectors = config.training.batch * model.context;
        let u = (vectors * model.hidden / (z * y) * 8) as u64;
        let (blocks, forwards) = (model.layers as u64, if recompute { 2 } else { 1 });
        let sums = (2 * blocks + 1) + forwards * 2 * blocks;
        let gathers = forwards * 2 * blocks + 1 + 2 * blocks;
        let again = if recompute { 1 } else { 2 * blocks + 1 };
        let moved = |config: &Config, operation| {
            let of_rank = |counters: &parallel::Counters| {
                counters.get(Axis::X, operation, Subject::Linear).bytes
            };
            let all: u64 = train(config).counters.iter().map(of_rank).sum();
            all / (x * y * z) as u64
        };
        assert_eq!(moved(&config, Operation::AllReduce), sums * u, "{grid}");
        config.parallel.sequence_parallel = true;
        for (operation, expected) in [
            (Operation::AllReduce, 0),
            (Operation::ReduceScatter, sums),
            (Operation::AllGather, gathers + again),
        ] {
            assert_eq!(moved(&config, operation), expected * u, "{grid}");
            let formula = ::train::placement::volumes(&config).unwrap().into_iter();
            let kind = (Axis::X, operation, Subject::Linear);
            let alike = formula.filter(|one| (one.axis, one.operation, one.subject) == kind);
            let bytes: u64 = alike.map(|one| one.bytes).sum();
            assert_eq!(bytes, expected * u, "the library's own formula on {grid}");
        }
    }
}
