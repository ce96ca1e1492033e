//! The bytes that linear layers move equal the published formulas, exactly, on every grid.
//!
//! Per layer of k inputs and n outputs, with m rows per data replica (arXiv:2305.13525; a transposed layer swaps X
//! and Y): all-gather of W over Z k n / (Gx Gy), in forward and again in backward; all-reduce of Y over Y m n / (Gz
//! Gx); all-reduce of dX over X m k / (Gz Gy); reduce-scatter of dW over Z k n / (Gx Gy).

use families::GptFamily;
use grid::{Axis, Degrees};
use parallel::{Operation, counters::Subject};
use testkit::{config, edit_gpt, gpt, train};
use train::{Config, config::Precision};

const BYTES: u64 = 8;

#[derive(Default, Debug, PartialEq, Clone, Copy)]
struct Expected {
    x_reduce: u64,
    y_reduce: u64,
    gather: u64,
    scatter: u64,
}

impl Expected {
    /// Layers that read the same k inputs; the gradient of these inputs is reduced once.
    fn add(
        &mut self,
        transposed: bool,
        k: u64,
        outputs: &[u64],
        m: u64,
        grid: Degrees,
        micro_batches: u64,
    ) {
        let (x, y, z) = (grid.x as u64, grid.y as u64, grid.z as u64);
        let (reads, emits) = if transposed { (x, y) } else { (y, x) };
        let n: u64 = outputs.iter().sum();
        let forward = m * n / (z * emits) * BYTES;
        let backward = m * k / (z * reads) * BYTES;
        let (over_reads, over_emits) = match transposed {
            false => (&mut self.y_reduce, &mut self.x_reduce),
            true => (&mut self.x_reduce, &mut self.y_reduce),
        };
        *over_reads += if reads > 1 { forward } else { 0 };
        *over_emits += if emits > 1 { backward } else { 0 };
        if z > 1 {
            self.gather += 2 * micro_batches * k * n / (x * y) * BYTES;
            self.scatter += micro_batches * k * n / (x * y) * BYTES;
        }
    }
}

fn expected(config: &Config, grid: Degrees, layers: usize) -> Expected {
    let model = gpt(config);
    let (h, kv) = (
        model.hidden as u64,
        (model.kv_heads() * model.head_size()) as u64,
    );
    let mlp = model.mlp_hidden() as u64;
    let m = (config.training.batch * model.context / (grid.data * grid.context)) as u64;
    let micro = config.training.micro_batches as u64;
    let mut sum = Expected::default();
    for _ in 0..layers {
        sum.add(false, h, &[h, kv, kv], m, grid, micro);
        sum.add(true, h, &[h], m, grid, micro);
        let up = if model.family == GptFamily::Llama {
            vec![mlp, mlp]
        } else {
            vec![mlp]
        };
        sum.add(false, h, &up, m, grid, micro);
        sum.add(true, mlp, &[h], m, grid, micro);
    }
    sum.add(false, h, &[model.vocabulary as u64], m, grid, micro);
    sum
}

// Calls and bytes of linear layers, by the formulas that `train --explain` prints and the `auto` order of axes
// uses.
fn linear_by_formula(config: &Config, axis: Axis, operation: Operation) -> (u64, u64) {
    let all = train::placement::volumes(config).unwrap();
    let kind = (axis, operation, Subject::Linear);
    let alike = all
        .iter()
        .filter(|volume| (volume.axis, volume.operation, volume.subject) == kind);
    alike.fold((0, 0), |(calls, bytes), volume| {
        (calls + volume.calls, bytes + volume.bytes)
    })
}

fn check(mut config: Config) {
    edit_gpt(&mut config, |model| model.vocabulary = 48);
    edit_gpt(&mut config, |model| model.tied_head = false);
    config.training.steps = 2;
    for grid in testkit::grids(&[1, 2, 4, 8]) {
        config.parallel.grid = grid;
        let expected = expected(&config, grid, gpt(&config).layers);
        // Every rank of a stage moves the same bytes, and the stages together move the bytes of the model.
        let mut found = Expected::default();
        for counters in train(&config).counters {
            let bytes = |axis, operation| counters.get(axis, operation, Subject::Linear).bytes;
            found.x_reduce += bytes(Axis::X, Operation::AllReduce);
            found.y_reduce += bytes(Axis::Y, Operation::AllReduce);
            found.gather += bytes(Axis::Z, Operation::AllGather);
            found.scatter += bytes(Axis::Z, Operation::ReduceScatter);
        }
        let ranks = (grid.x * grid.y * grid.z * grid.context * grid.data) as u64;
        let per_rank = |sum: u64| {
            assert_eq!(sum % ranks, 0, "ranks of a stage differ on {grid}");
            sum / ranks
        };
        let Expected {
            x_reduce,
            y_reduce,
            gather,
            scatter,
        } = found;
        let [x_reduce, y_reduce, gather, scatter] =
            [x_reduce, y_reduce, gather, scatter].map(per_rank);
        assert_eq!(
            Expected {
                x_reduce,
                y_reduce,
                gather,
                scatter
            },
            expected,
            "{grid}"
        );
        let by_formula = |axis, operation| linear_by_formula(&config, axis, operation).1;
        let formulas = Expected {
            x_reduce: by_formula(Axis::X, Operation::AllReduce),
            y_reduce: by_formula(Axis::Y, Operation::AllReduce),
            gather: by_formula(Axis::Z, Operation::AllGather),
            scatter: by_formula(Axis::Z, Operation::ReduceScatter),
        };
        assert_eq!(formulas, expected, "the library's own formulas on {grid}");
    }
}

#[test]
fn gpt2_moves_what_the_formulas_say() {
    check(config(Precision::F64));
}

#[test]
fn llama_moves_what_the_formulas_say() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.family = GptFamily::Llama);
    edit_gpt(&mut config, |model| model.mlp_hidden = 64);
    check(config);
}

#[test]
fn recomputation_gathers_and_reduces_once_more() {
    let mut config = config(Precision::F64);
    edit_gpt(&mut config, |model| model.vocabulary = 48);
    config.training.steps = 2;
    config.parallel.grid = Degrees {
        y: 2,
        z: 2,
        ..Degrees::default()
    };
    let plain = train(&config).counters[0].clone();
    config.training.recompute = true.into();
    let again = train(&config).counters[0].clone();
    for keep in [false, true] {
        config.parallel.keep_gathered = keep;
        let counters = train(&config).counters[0].clone();
        for (axis, operation) in [
            (Axis::Y, Operation::AllReduce),
            (Axis::Z, Operation::AllGather),
            (Axis::Z, Operation::ReduceScatter),
        ] {
            let found = counters.get(axis, operation, Subject::Linear);
            let formula = linear_by_formula(&config, axis, operation);
            assert_eq!(
                (found.calls, found.bytes),
                formula,
                "{axis} {operation:?}, kept: {keep}"
            );
        }
    }
    let linear = |counters: &parallel::Counters, axis, operation| {
        counters.get(axis, operation, Subject::Linear).bytes
    };
    let head = (gpt(&config).hidden * 48 / 2) as u64 * BYTES * config.training.micro_batches as u64;
    let blocks = linear(&plain, Axis::Z, Operation::AllGather) - 2 * head;
    assert_eq!(
        linear(&again, Axis::Z, Operation::AllGather),
        blocks / 2 * 3 + 2 * head
    );
    assert_eq!(
        linear(&again, Axis::Z, Operation::ReduceScatter),
        linear(&plain, Axis::Z, Operation::ReduceScatter)
    );
}

#[test]
fn data_replicas_reduce_each_shard_once_a_step() {
    let mut config = config(Precision::F64);
    config.training.steps = 2;
    config.parallel.grid = Degrees {
        x: 2,
        data: 2,
        ..Degrees::default()
    };
    for counters in train(&config).counters {
        let bytes = counters
            .get(Axis::Data, Operation::AllReduce, Subject::Gradients)
            .bytes;
        let model = gpt(&config);
        // Shards of x=2: half of all matrices and of those biases that x cuts; alignment adds less than 1 %.
        let matrices = model.layers * 12 * model.hidden * model.hidden / 2 + 19 * model.hidden;
        let vectors =
            model.layers * (9 * model.hidden) + 2 * model.hidden + model.context * model.hidden;
        let (least, most) = (matrices as u64 * BYTES, (matrices + vectors) as u64 * BYTES);
        assert!(
            (least..=most + most / 50).contains(&bytes),
            "{least} <= {bytes} <= {most}"
        );
    }
}

// What linear layers and gradients move in a step on each axis of the tensor and on Data, counted by all ranks and by formula.
fn counted_and_by_formula(config: &Config) -> [Vec<(Axis, Operation, Subject, u64)>; 2] {
    let runs = train(config).counters;
    let volumes = train::placement::volumes(config).unwrap();
    let of_stage = (runs.len() / config.parallel.grid.pipeline) as u64;
    let mut all = [vec![], vec![]];
    for axis in [Axis::X, Axis::Y, Axis::Z, Axis::Data] {
        let operations = [
            Operation::AllReduce,
            Operation::AllGather,
            Operation::ReduceScatter,
        ];
        for operation in operations {
            // Over Z and the axes that repeat them, gradients of vectors are summed, which the formulas leave out.
            let subject = match axis {
                Axis::Data => Subject::Gradients,
                _ => Subject::Linear,
            };
            let of_run = |run: &parallel::Counters| run.get(axis, operation, subject).bytes;
            let counted = runs.iter().map(of_run).sum::<u64>();
            assert_eq!(counted % of_stage, 0, "ranks of a stage differ");
            let alike = volumes
                .iter()
                .filter(|one| (one.axis, one.operation, one.subject) == (axis, operation, subject));
            let formula = alike.map(|one| one.bytes).sum();
            all[0].push((axis, operation, subject, counted / of_stage));
            all[1].push((axis, operation, subject, formula));
        }
    }
    all
}

fn tuned() -> Vec<(&'static str, Config)> {
    let mut base = config(Precision::F64);
    edit_gpt(&mut base, |model| {
        model.family = GptFamily::Llama;
        (model.mlp_hidden, model.vocabulary, model.tied_head) = (64, 48, false);
    });
    base.training.steps = 2;
    base.tuning.adapter_targets = vec!["attention.*".into(), "mlp.*".into()];
    let with = |edit: fn(&mut Config)| {
        let mut config = base.clone();
        edit(&mut config);
        config
    };
    vec![
        (
            "frozen",
            with(|config| {
                config.tuning.frozen = vec!["embedding.*".into(), "blocks.0.*".into()];
            }),
        ),
        ("adapted", with(|config| config.tuning.adapter_rank = 4)),
        (
            "decomposed",
            with(|config| {
                config.tuning.adapter_rank = 4;
                config.tuning.adapter_decomposed = true;
            }),
        ),
        (
            "recomputed",
            with(|config| {
                config.tuning.adapter_rank = 4;
                config.tuning.adapter_decomposed = true;
                config.training.recompute = true.into();
            }),
        ),
    ]
}

// Inputs and outputs of a block's linear layers.
fn layers_of_a_block(config: &Config) -> [(usize, usize); 7] {
    let model = gpt(config);
    let (h, mlp) = (model.hidden, model.mlp_hidden());
    let kv = model.kv_heads() * model.head_size();
    [
        (h, h),
        (h, kv),
        (h, kv),
        (h, h),
        (h, mlp),
        (h, mlp),
        (mlp, h),
    ]
}

// Trained elements of gains, or of columns' lengths: the formula for Data divides them by Z too, whose ranks hold all of them.
fn trained_vectors(name: &str, config: &Config) -> u64 {
    let model = gpt(config);
    let lengths: usize = layers_of_a_block(config).iter().map(|(_, n)| n).sum();
    let elements = match name {
        "adapted" => 0,
        "frozen" => (2 * (model.layers - 1) + 1) * model.hidden,
        _ => model.layers * lengths,
    };
    elements as u64 * BYTES
}

#[test]
fn tuned_runs_move_what_the_formulas_say() {
    for (name, mut config) in tuned() {
        let vectors = trained_vectors(name, &config);
        for grid in testkit::grids(&[2, 4, 8]) {
            config.parallel.grid = grid;
            let [counted, formula] = counted_and_by_formula(&config);
            for (counted, formula) in counted.into_iter().zip(formula) {
                let (found, needed) = (counted.3, formula.3);
                let vectors = match counted.0 {
                    Axis::Data => vectors,
                    _ => 0,
                };
                assert!(
                    (needed..=needed + vectors).contains(&found),
                    "{name} on {grid}: {counted:?}, by formula {needed}"
                );
            }
        }
    }
}

// An adapter of rank r on a layer of k inputs and n outputs has r (k + n) weights: only these have gradients.
#[test]
fn only_adapters_have_gradients_to_move() {
    let (_, mut config) = tuned().swap_remove(1);
    let layers = layers_of_a_block(&config);
    let of_block: usize = layers.iter().map(|(k, n)| 4 * (k + n)).sum();
    let trained = (gpt(&config).layers * of_block) as u64 * BYTES;
    for grid in ["z=2", "data=2", "x=2,y=2,z=2", "x=2,z=2,data=2"] {
        let grid: Degrees = grid.parse().unwrap();
        config.parallel.grid = grid;
        let [counted, _] = counted_and_by_formula(&config);
        let found = |axis, operation| {
            let one = counted
                .iter()
                .find(|one| (one.0, one.1) == (axis, operation));
            one.expect("it was counted").3
        };
        let scattered = trained / (grid.x * grid.y) as u64;
        let times = config.training.micro_batches as u64 * u64::from(grid.z > 1);
        assert_eq!(
            found(Axis::Z, Operation::ReduceScatter),
            times * scattered,
            "{grid}"
        );
        let reduced = scattered / grid.z as u64 * u64::from(grid.data > 1);
        assert_eq!(found(Axis::Data, Operation::AllReduce), reduced, "{grid}");
    }
}
