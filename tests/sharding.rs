//! Gradients in shards (ZeRO stage 2) give the serial losses and gradients, to the bit where that is asked, move the bytes of
//! their formula, and keep 1/Gdata of the gradients.

use ::train::{Config, config::Precision};
use families::GptFamily;
use grid::{Axis, Degrees};
use parallel::{GradientWire, Operation, Reproducible, counters::Subject, data::Sharding};
use tensor::MemoryKind;
use testkit::{
    Outcome, SCHEDULES, bits, config, difference, edit_gpt, fixed_batch, grids, is_exhaustive, on,
    ranks, serial, train, try_ranks,
};

const F64: f64 = 1e-9;

fn sharded(config: &Config, grid: Degrees) -> Config {
    let mut config = on(config, grid);
    config.parallel.sharding = Sharding::Gradients;
    config
}

fn check(config: &Config, grid: Degrees, expected: &Outcome) {
    let difference = difference(&train(&sharded(config, grid)), expected);
    assert!(difference.largest() <= F64, "grid {grid}: {difference}");
}

// The grids of up to 8 ranks with replicas.
fn replicated_grids() -> Vec<Degrees> {
    let grids = grids(&[2, 4, 8]).into_iter();
    let replicated: Vec<Degrees> = grids.filter(|grid| grid.data > 1).collect();
    assert_eq!(replicated.len(), if is_exhaustive() { 27 } else { 5 });
    replicated
}

fn llama(config: &mut Config) {
    edit_gpt(config, |model| {
        (model.family, model.tied_head) = (GptFamily::Llama, false);
        (model.hidden, model.heads, model.kv_heads) = (64, 16, 8);
        model.mlp_hidden = 80;
    });
}

#[test]
fn gpt2_tied_with_dropout() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    let expected = serial(&config);
    for grid in replicated_grids() {
        check(&config, grid, &expected);
    }
}

#[test]
fn llama_recomputed_with_spread_vectors_and_small_buckets() {
    let mut config = config(Precision::F64);
    llama(&mut config);
    config.training.recompute = true.into();
    config.parallel.sequence_parallel = true;
    config.parallel.bucket_mib = 0;
    let expected = serial(&config);
    for grid in replicated_grids() {
        check(&config, grid, &expected);
    }
}

#[test]
fn every_schedule_and_number_of_micro_batches() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    let expected = serial(&config);
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        for (grid, micro_batches) in [
            ("data=2,pipeline=2", 4),
            ("data=4,pipeline=2", 2),
            ("x=2,data=2,pipeline=2", 4),
        ] {
            config.training.micro_batches = micro_batches;
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

// Without overlap, with small buckets, checked and clipped.
#[test]
fn choices_of_how_a_step_runs() {
    let config = config(Precision::F64);
    let expected = serial(&config);
    let edits: [fn(&mut Config); 4] = [
        |config| config.parallel.overlap.0 = parallel::Overlap::NONE,
        |config| config.parallel.bucket_mib = 0,
        |config| config.parallel.checked = true,
        |config| config.parallel.keep_gathered = true,
    ];
    for edit in edits {
        for grid in ["data=4", "z=2,data=2", "y=2,data=2,pipeline=2"] {
            let mut config = config.clone();
            edit(&mut config);
            check(&config, grid.parse().unwrap(), &expected);
        }
    }
}

// As every other way to run, with `training.reproducible = "grid"`.
fn check_bits(mut config: Config, grids: &[Degrees], micro_batches: &[usize]) {
    config.training.reproducible = Reproducible::Grid.into();
    config.training.steps = 4;
    let expected = serial(&config);
    for grid in grids {
        for &count in micro_batches {
            let mut config = sharded(&config, *grid);
            config.training.micro_batches = count;
            let what = format!("{grid}, {count} micro-batches");
            bits::check(&train(&config), &expected, &what);
        }
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    let mut config = config(Precision::F32);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    check_bits(config, &replicated_grids(), &[2]);
}

#[test]
fn every_number_of_micro_batches_has_the_bits_of_one_rank() {
    let mut config = config(Precision::F32);
    config.training.batch = 12;
    let grids = ["data=2", "z=2,data=2", "data=2,pipeline=2"];
    check_bits(
        config.clone(),
        &grids.map(|grid| grid.parse().unwrap()),
        &[1, 3],
    );
    check_bits(config, &["data=3".parse().unwrap()], &[1, 2, 4]);
}

#[test]
fn every_schedule_has_the_bits_of_one_rank() {
    let mut config = config(Precision::F32);
    edit_gpt(&mut config, |model| model.dropout = 0.1);
    for schedule in SCHEDULES {
        config.parallel.schedule = schedule.parse().unwrap();
        let grids = ["data=2,pipeline=2", "x=2,data=2,pipeline=2"];
        check_bits(
            config.clone(),
            &grids.map(|grid| grid.parse().unwrap()),
            &[4],
        );
    }
}

#[test]
fn recomputed_half_precision_has_the_bits_of_one_rank() {
    for precision in [Precision::Bf16, Precision::F16] {
        let mut config = config(precision);
        llama(&mut config);
        config.training.recompute = true.into();
        let grids = [
            "data=4",
            "x=2,data=2",
            "x=2,data=2,pipeline=2",
            "z=2,data=2",
        ];
        check_bits(config, &grids.map(|grid| grid.parse().unwrap()), &[2]);
    }
}

// In one micro-batch shards and copies are the same sums, so also without an order that no grid changes.
#[test]
fn shards_have_the_bits_of_copies() {
    let mut config = config(Precision::F32);
    config.training.reproducible = Reproducible::Run.into();
    (config.training.micro_batches, config.training.clip_norm) = (1, 0.0);
    edit_gpt(&mut config, |model| model.dropout = 0.2);
    for grid in ["data=2", "data=4", "data=8", "x=2,z=2,data=2"] {
        let sharded = sharded(&config, grid.parse().unwrap());
        let mut copied = sharded.clone();
        copied.parallel.sharding = Sharding::None;
        // The norm adds the squares of other parts.
        let [mut sharded, mut copied] = [sharded, copied].map(|config| train(&config));
        (sharded.norms, copied.norms) = (Vec::new(), Vec::new());
        bits::check(&sharded, &copied, grid);
    }
}

// Each micro-batch scatters all gradients, and the step gathers all values.
#[test]
fn bytes_are_those_of_the_formula() {
    for (grid, reproducible) in [
        ("data=2", Reproducible::Run),
        ("data=4", Reproducible::Run),
        ("x=2,data=2", Reproducible::Run),
        ("data=2", Reproducible::Grid),
    ] {
        let mut config = config(Precision::F64);
        // A table that is also the head has two sums, each of which travels.
        llama(&mut config);
        config.training.reproducible = reproducible.into();
        config.training.steps = 1;
        config.training.micro_batches = 2;
        let config = sharded(&config, grid.parse().unwrap());
        let outcome = train(&config);
        let ranks = config.parallel.grid.x * config.parallel.grid.data;
        let scatter = match reproducible {
            Reproducible::Run => Operation::ReduceScatter,
            Reproducible::Grid => Operation::AllToAll,
        };
        let formula = ::train::placement::volumes(&config).unwrap();
        for operation in [scatter, Operation::AllGather] {
            let of_rank = |counters: &parallel::Counters| {
                let counted = counters.get(Axis::Data, operation, Subject::Gradients);
                counted.bytes
            };
            let all: u64 = outcome.counters.iter().map(of_rank).sum();
            let moved = all as f64 / ranks as f64;
            let kind = (Axis::Data, operation, Subject::Gradients);
            let alike = formula.iter();
            let alike = alike.filter(|one| (one.axis, one.operation, one.subject) == kind);
            let expected: u64 = alike.map(|one| one.bytes).sum();
            // The buffers are padded, and what Z or X does not cut is held by all of their ranks.
            let share = moved / expected as f64;
            assert!(
                (1.0..1.1).contains(&share),
                "{grid}, {operation:?}: {moved} of {expected}"
            );
        }
    }
}

// In bf16, `narrow` halves the bytes over Data and `wide` doubles those of weights over Z; losses stay near the serial ones.
#[test]
fn gradients_travel_in_the_type_that_is_asked_for() {
    let mut config = config(Precision::Bf16);
    llama(&mut config);
    let expected = serial(&config);
    for (grid, sharding) in [
        ("data=2", Sharding::None),
        ("data=2", Sharding::Optimiser),
        ("data=2", Sharding::Gradients),
        ("z=2,data=2", Sharding::Gradients),
    ] {
        let moved = |wire: GradientWire| {
            let mut config = config.clone();
            (config.parallel.grid, config.parallel.sharding) = (grid.parse().unwrap(), sharding);
            config.parallel.gradient_wire = wire;
            let outcome = train(&config);
            for (found, expected) in outcome.losses.iter().zip(&expected.losses) {
                let what = format!("{grid}, {sharding}, {wire}");
                assert!(
                    (found / expected - 1.0).abs() < 0.02,
                    "{what}: {found}, {expected}"
                );
            }
            let bytes = |axis, operation, subject| -> u64 {
                let of_rank =
                    |counters: &parallel::Counters| counters.get(axis, operation, subject).bytes;
                outcome.counters.iter().map(of_rank).sum()
            };
            let summed = match sharding {
                Sharding::None => Operation::AllReduce,
                _ => Operation::ReduceScatter,
            };
            [
                bytes(Axis::Data, summed, Subject::Gradients),
                bytes(Axis::Z, Operation::ReduceScatter, Subject::Linear),
            ]
        };
        let mixed = moved(GradientWire::Mixed);
        assert_eq!(
            moved(GradientWire::Narrow),
            [mixed[0] / 2, mixed[1]],
            "{grid}"
        );
        assert_eq!(
            moved(GradientWire::Wide),
            [mixed[0], 2 * mixed[1]],
            "{grid}"
        );
    }
}

// The tree of a sum has no place for a rounding of each rank's part.
#[test]
fn narrow_gradients_have_no_bits_of_every_grid() {
    let mut config = config(Precision::Bf16);
    config.parallel.gradient_wire = GradientWire::Narrow;
    config.parallel.grid = "data=2".parse().unwrap();
    config.training.reproducible = Reproducible::Grid.into();
    let refused = move |world: bootstrap::World, device: tensor::Device| {
        let context = config.context(&world, &device)?;
        config.trainer(&context).map(drop)
    };
    let error = try_ranks(2, refused).unwrap_err();
    let expected = "gradients that travel in bf16, needs gradient_wire mixed or wide";
    assert!(error.contains(expected), "{error}");
}

// What each kind of memory holds at most on rank 0, in bytes.
fn peaks(config: &Config) -> [usize; 3] {
    let grid = config.grid().unwrap();
    let config = config.clone();
    let all = ranks(grid.world_size(), move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        for step in 0..2 {
            trainer.step(&fixed_batch(&trainer, &config, step)?)?;
        }
        let held = device.memory_use();
        let kinds = [
            MemoryKind::Weights,
            MemoryKind::Gradients,
            MemoryKind::Optimiser,
        ];
        Ok(kinds.map(|kind| held.of(kind).peak))
    });
    all[0]
}

// With P parameters in bf16 on N ranks: 2 P, 4 P and 12 P, each divided by N where the sharding says so; gradients in
// shards also take the buckets in flight, in the first step as in any other.
#[test]
fn a_rank_holds_what_the_formulas_say() {
    let mut config = config(Precision::Bf16);
    llama(&mut config);
    edit_gpt(&mut config, |model| {
        (model.layers, model.hidden) = (16, 128)
    });
    (config.training.batch, config.training.micro_batches) = (16, 4);
    config.training.recompute = true.into();
    config.parallel.bucket_mib = 0;
    let parameters = config.work().unwrap().num_parameters();
    // Buckets are padded, and memory is handed out in blocks that are up to an eighth larger.
    let is_near = |found: usize, exact: usize| (exact..exact * 23 / 20).contains(&found);
    for replicas in [2, 4] {
        for sharding in Sharding::ALL {
            config.parallel.grid = format!("data={replicas}").parse().unwrap();
            config.parallel.sharding = sharding;
            let [weights, gradients, optimiser] = peaks(&config);
            let what = format!("data={replicas}, {sharding}");
            let share = |is_sharded| if is_sharded { replicas } else { 1 };
            let of_state = share(sharding.shards_state());
            assert!(is_near(weights, 2 * parameters), "{what}: {weights}");
            assert!(
                is_near(optimiser, 12 * parameters / of_state),
                "{what}: {optimiser}"
            );
            let shard = 4 * parameters / share(sharding.shards_gradients());
            // The largest parameter is the table, its own bucket.
            let in_flight = match sharding.shards_gradients() {
                true => 2 * 4 * 128 * 128,
                false => 0,
            };
            assert!(
                gradients >= shard && gradients < shard * 23 / 20 + in_flight,
                "{what}: {gradients} of {shard} and {in_flight}"
            );
        }
        // Weights too: Z cuts all but norms.
        config.parallel.grid = format!("z={replicas}").parse().unwrap();
        let found = peaks(&config);
        for (found, bytes) in found.into_iter().zip([2, 4, 12]) {
            let exact = bytes * parameters / replicas;
            assert!(is_near(found, exact), "z={replicas}: {found} of {exact}");
        }
    }
}
