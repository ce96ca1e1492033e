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

use fascicle::{
    grid::machine::Machine,
    parallel::{
        Operation, Reproducible,
        counters::Subject,
        data::Sharding,
        memory::{ActivationMemory, SegmentMemory, Segments},
        work::Work,
    },
    prelude::*,
    train::{self, blueprint::Blueprint},
};
use std::{array::from_fn, ops::Range};
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
    assert_eq!(report.grids.len() + report.skipped.len(), 84, "{what}");
}

#[test]
fn a_residual_classifier_trains_alike_on_every_grid() {
    let options = Check {
        memory: SegmentMemory::RECOMPUTED.into(),
        sharding: Sharding::Optimiser,
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

// Rows, micro-batches and shards that nothing divides, and layers that use their weights twice.
#[test]
fn gradients_in_shards_train_alike_on_every_grid() {
    let options = Check {
        batch: 37,
        micro_batches: 3,
        sharding: Sharding::Gradients,
        ..Check::default()
    };
    let report = check(skips::Encoder::new, skips::waves, &options);
    passes("encoder with skips", &report.unwrap(), 8);
    let report = check(pair::Pair::new, pair::pairs, &options);
    passes("pair of towers", &report.unwrap(), 3);
    let bits = Check {
        batch: 16,
        micro_batches: 2,
        reproducible: Reproducible::Grid,
        tolerance: 0.0,
        ..options
    };
    let report = check(skips::Encoder::new, skips::waves, &bits);
    passes("encoder with skips", &report.unwrap(), 8);
}

fn recomputing(recompute: bool) -> ActivationMemory {
    ActivationMemory {
        recompute: recompute.into(),
        ..ActivationMemory::default()
    }
}

// None of these models names its segments, so numbers select them; pieces cut tensors.
#[test]
fn segments_that_differ_in_their_memory_train_alike_on_every_grid() {
    let mixed = |recompute: &[&str], host: &[&str], files: &[&str]| {
        let some = |names: &[&str]| Segments::named(names).unwrap();
        ActivationMemory {
            recompute: some(recompute),
            host: some(host),
            files: some(files),
            piece_bytes: 1000,
            ..ActivationMemory::default()
        }
    };
    let options = |memory, schedule| Check {
        memory,
        schedule,
        ..Check::default()
    };
    let one = mixed(&["0"], &["0", "2"], &["1"]);
    let report = check(
        residual::Classifier::new,
        residual::rings,
        &options(one, ScheduleKind::ZbH1),
    );
    passes("classifier of a mixed memory", &report.unwrap(), 6);
    // The halves of a skip keep their wires in different places.
    let other = mixed(&["0", "2"], &["1-2"], &["3"]);
    let options = options(other, ScheduleKind::OneForwardOneBackward);
    let report = check(Reread::new, numbers, &options).unwrap();
    assert!(report.grids.iter().any(|grid| grid.degrees.pipeline == 2));
}

// None of these models knows that its vectors may be spread.
#[test]
fn spread_vectors_train_alike_on_every_grid() {
    let spread = |recompute| Check {
        sequence_parallel: true,
        memory: recomputing(recompute),
        sharding: match recompute {
            true => Sharding::Gradients,
            false => Sharding::None,
        },
        ..Check::default()
    };
    let report = check(residual::Classifier::new, residual::rings, &spread(true));
    passes("residual classifier", &report.unwrap(), 6);
    let report = check(skips::Encoder::new, skips::waves, &spread(false));
    passes("encoder with skips", &report.unwrap(), 8);
    let report = check(pair::Pair::new, pair::pairs, &spread(true));
    passes("pair of towers", &report.unwrap(), 3);
    let bits = Check {
        reproducible: Reproducible::Grid,
        tolerance: 0.0,
        ..spread(false)
    };
    let report = check(skips::Encoder::new, skips::waves, &bits);
    passes("encoder with skips", &report.unwrap(), 8);
}

/// Segments 1 and 3 both read what segment 0 makes.
struct Reread([Linear; 4]);

const FEATURES: usize = 8;

impl Reread {
    fn new(builder: &Builder) -> Result<Reread> {
        let layer = |segment: usize| {
            let name = format!("layer{segment}");
            builder.segment(segment).linear(&name, FEATURES, FEATURES)
        };
        Ok(Reread([layer(0)?, layer(1)?, layer(2)?, layer(3)?]))
    }
}

impl Model for Reread {
    fn num_segments(&self) -> usize {
        4
    }

    fn routes(&self) -> Vec<Route> {
        let chain = (0..4).map(|segment| Route::new("x", segment, segment + 1));
        let kept = [Route::new("kept", 0, 1), Route::new("kept", 0, 3)];
        chain.chain(kept).collect()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let x = match segment {
            0 => input.activation("x")?,
            1 | 3 => wires.take("x")?.add(&wires.take("kept")?.tanh()?)?,
            _ => wires.take("x")?,
        };
        let x = self.0[segment].forward(&x)?;
        Ok(match segment {
            0 => Wires::of("x", x.square()?).with("kept", x),
            _ => Wires::of("x", x.tanh()?),
        })
    }

    fn objective(&self, _: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        Loss::mean(&wires.take("x")?.square()?)
    }
}

fn numbers(_step: u64, rows: Range<usize>) -> train::Result<Rows> {
    let row = |row: usize| from_fn::<_, FEATURES, _>(|i| ((row * FEATURES + i) as f64).sin());
    Ok(Rows::new().each("x", rows, row))
}

const INTERLEAVED: ScheduleKind = ScheduleKind::Interleaved { chunks: 2 };

#[test]
fn a_wire_that_two_parts_of_a_stage_read_trains_alike_on_every_grid() {
    for (schedule, recompute) in [
        (INTERLEAVED, false),
        (INTERLEAVED, true),
        (ScheduleKind::ZbV, false),
        (ScheduleKind::ZbV, true),
    ] {
        let options = Check {
            schedule,
            ranks: 4,
            memory: recomputing(recompute),
            ..Check::default()
        };
        let report = check(Reread::new, numbers, &options).unwrap();
        assert!(report.grids.iter().any(|grid| grid.degrees.pipeline == 2));
    }
}

/// Each segment also hands its input on past the next one, so that wires skip parts at every place of a stage.
struct Leaps([Linear; 8]);

impl Leaps {
    fn new(builder: &Builder) -> Result<Leaps> {
        let layer = |segment: usize| {
            let name = format!("layer{segment}");
            builder.segment(segment).linear(&name, FEATURES, FEATURES)
        };
        let mut layers = Vec::new();
        for segment in 0..8 {
            layers.push(layer(segment)?);
        }
        Ok(Leaps(layers.try_into().expect("8 of them")))
    }
}

impl Model for Leaps {
    fn num_segments(&self) -> usize {
        8
    }

    fn routes(&self) -> Vec<Route> {
        let chain = (0..8).map(|segment| Route::new("x", segment, segment + 1));
        let leaps = (0..6).map(|segment| Route::new("past", segment, segment + 2));
        chain.chain(leaps).collect()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let mut x = match segment {
            0 => input.activation("x")?,
            _ => wires.take("x")?,
        };
        if segment >= 2 {
            x = x.add(&wires.take("past")?)?;
        }
        let out = Wires::of("x", self.0[segment].forward(&x)?.tanh()?);
        Ok(match segment {
            0..6 => out.with("past", x),
            _ => out,
        })
    }

    fn objective(&self, _: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        Loss::mean(&wires.take("x")?.square()?)
    }
}

// With two parts on each of four stages, messages between other parts than neighbours go in both directions at once.
#[test]
fn wires_that_leap_over_parts_arrive_under_every_schedule() {
    for schedule in testkit::SCHEDULES {
        let options = Check {
            schedule: schedule.parse().unwrap(),
            ranks: 4,
            batch: 32,
            micro_batches: 8,
            // The second step receives ahead.
            steps: 2,
            ..Check::default()
        };
        let report = check(Leaps::new, numbers, &options).unwrap();
        assert!(
            report.grids.iter().any(|grid| grid.degrees.pipeline == 4),
            "{schedule}"
        );
    }
}

// 11 rows give ranks different numbers of nodes.
#[test]
fn uneven_rows_have_the_same_bits_on_every_grid() {
    for (batch, micro_batches) in [(11, 1), (13, 2), (27, 3)] {
        let options = Check {
            batch,
            micro_batches,
            reproducible: Reproducible::Grid,
            tolerance: 0.0,
            ..Check::default()
        };
        let report = check(Reread::new, numbers, &options).unwrap();
        assert!(report.grids.iter().any(|grid| grid.degrees.data == 4));
    }
}

#[test]
fn an_encoder_with_skips_has_the_same_bits_on_every_grid() {
    let options = Check {
        reproducible: Reproducible::Grid,
        tolerance: 0.0,
        ..Check::default()
    };
    let report = check(skips::Encoder::new, skips::waves, &options);
    passes("encoder with skips", &report.unwrap(), 8);
}

// Its gate is multiplied by plain operations, which sum its gradient over all rows of a micro-batch.
#[test]
fn plain_operations_on_several_rows_are_refused_where_sums_are_reproducible() {
    let options = Check {
        reproducible: Reproducible::Grid,
        ..Check::default()
    };
    let error = check(residual::Classifier::new, residual::rings, &options).unwrap_err();
    let sentence = error.to_string();
    assert!(
        sentence.contains("gate in plain operations on 8 rows"),
        "{sentence}"
    );
}

// Parts 0 and 2 are on the first stage, 1 and 3 on the second: `kept` goes there once, and its gradient back once.
#[test]
fn a_stage_gets_a_wire_once_however_many_of_its_parts_read_it() {
    const BATCH: usize = 8;
    let degrees = "pipeline=2".parse().unwrap();
    let grid = Grid::new(degrees, AxisOrder::default()).unwrap();
    let sent = launch(grid, Settings::default(), |context| {
        let options = Options::new(BATCH, 2).precision(Precision::F64);
        let options = options.schedule(INTERLEAVED);
        let mut trainer = Trainer::new(context, Reread::new, AdamW::new(0.01), options)?;
        trainer.train_until(1, &numbers)?;
        let counters = context.counters();
        let sent = counters.get(Axis::Pipeline, Operation::Send, Subject::Pipeline);
        Ok::<_, train::Error>(sent.bytes)
    });
    // Forward the first stage sends x twice and kept, the second x once; backward each sends the gradients of the rest.
    let wires = [3 + 1, 1 + 3].map(|wires| (wires * BATCH * FEATURES * 8) as u64);
    assert_eq!(sent.unwrap(), wires);

    // The planner counts the same messages of one direction.
    let columns = |device: &Device| {
        let x = Tensor::zeros(device, DType::F64, &[1, FEATURES])?;
        MicroBatch::new(0..1).with("x", x)
    };
    let build = |context: &Context| {
        let builder = Builder::new(context);
        Ok((Reread::new(&builder)?, builder.parameters()))
    };
    let work = Work::count(columns, DType::F64, build).unwrap();
    let stages = INTERLEAVED.stages(2);
    let parts: Vec<_> = (0..4).map(|part| part..part + 1).collect();
    assert_eq!(work.crossing(&parts, stages).len(), 4);
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

/// A layer of plain operations: it sees all vectors of a value of which a rank may hold a part.
struct Gated {
    up: nn::Linear,
    down: nn::Linear,
    gate: Parameter,
}

impl Gated {
    fn new(builder: &Builder) -> Result<Gated> {
        let layout = grid::Layout::cut(vec![vec![Axis::Y]]).expect("one axis");
        Ok(Gated {
            up: builder.linear("up", 6, 8)?,
            down: builder.linear_transposed("down", 8, 6)?,
            gate: builder.parameter("gate", &[6], layout, Init::Constant(0.5), false)?,
        })
    }

    fn sines(step: u64, rows: Range<usize>) -> train::Result<Rows> {
        let count = 8 * 6 * rows.len();
        let start = (step as usize * 64 + rows.start) * 8 * 6;
        let of = |factor: f64| move |index: usize| (factor * (start + index) as f64).sin();
        let numbers = |factor| (0..count).map(of(factor)).collect::<Vec<f64>>();
        let x = Rows::new().with("x", &[8, 6], numbers(0.37));
        Ok(x.with("y", &[8, 6], numbers(0.11)))
    }
}

impl Model for Gated {
    fn num_segments(&self) -> usize {
        1
    }

    fn forward(&self, _: usize, input: &Input<'_>, _: Wires) -> Result<Wires> {
        let up = self.up.forward(&input.activation("x")?)?.tanh()?;
        let h = self.down.forward(&up)?;
        let gated = h.var()?.mul_row(&self.gate.var(&h)?)?;
        let gated = DTensor::new(h.pass(), gated, h.features(), h.cut())?;
        Ok(Wires::of("x", gated))
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let error = wires.take("x")?.sub(&input.activation("y")?)?;
        Loss::mean(&error.square()?)
    }
}

#[test]
fn plain_operations_on_all_vectors_train_alike_on_every_grid() {
    for sequence_parallel in [false, true] {
        let options = Check {
            sequence_parallel,
            ..Check::default()
        };
        let report = check(Gated::new, Gated::sines, &options);
        passes("gated", &report.unwrap(), 1);
    }
}
