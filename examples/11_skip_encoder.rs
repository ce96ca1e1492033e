//! A denoising encoder whose skip connections cross pipeline stages. What the first stage keeps for the last one is
//! sent there once, past the stages between them, and under every schedule the losses equal those of one rank.
//!
//! `cargo run --release --example 11_skip_encoder`

mod on_grids;

use fascicle::hal::random::Key;
use fascicle::nn::Linear;
use fascicle::parallel::{Operation, counters::Subject, pipeline::ScheduleKind};
use fascicle::prelude::*;
use fascicle::train::{self, batches::FromFn, config::Precision};
use on_grids::{on, same};

const LENGTH: usize = 32;
const BATCH: usize = 16;
const STEPS: usize = 60;

/// Segments: input, two that halve the length, two at the bottom, two that double it, output.
pub(crate) struct Encoder {
    layers: Vec<Linear>,
}

impl Encoder {
    pub(crate) fn new(builder: &Builder) -> Result<Encoder> {
        // The input and output sizes of each segment's layer; layers after a skip read the skip too.
        let sizes = [
            (32, 32),
            (32, 32),
            (16, 16),
            (8, 8),
            (8, 16),
            (32, 32),
            (64, 32),
            (32, 32),
        ];
        let layer = |(segment, (reads, gives)): (usize, &(usize, usize))| {
            builder
                .segment(segment)
                .linear(&format!("layer{segment}"), *reads, *gives)
        };
        let layers = sizes.iter().enumerate().map(layer).collect::<Result<_>>()?;
        Ok(Encoder { layers })
    }
}

/// The mean of each pair of neighbours in a signal.
fn halved(x: &DTensor) -> Result<DTensor> {
    let length = x.features() / 2;
    x.reshape(&[length, 2])?.mean_features()?.reshape(&[length])
}

impl Model for Encoder {
    fn num_segments(&self) -> usize {
        self.layers.len()
    }

    // All segments cost the same, so a pipeline of four stages gets two on each stage.
    fn cost(&self, _segment: usize) -> Option<f64> {
        Some(1.0)
    }

    fn routes(&self) -> Vec<Route> {
        let mut routes: Vec<_> = (0..8)
            .map(|segment| Route::new("x", segment, segment + 1))
            .collect();
        routes.extend([Route::new("skip1", 1, 6), Route::new("skip2", 2, 5)]);
        routes
    }

    fn forward(
        &self,
        segment: usize,
        pass: &Pass,
        batch: &MicroBatch,
        mut wires: Wires,
    ) -> Result<Wires> {
        let mut x = match segment {
            0 => batch.input(pass, "noisy")?,
            _ => wires.take("x")?,
        };
        if let 5 | 6 = segment {
            let skip = wires.take(["skip2", "skip1"][segment - 5])?;
            x = DTensor::concat(&[&x, &skip], 1)?;
        }
        let layer = self.layers[segment].forward(&x)?;
        Ok(match segment {
            1 => Wires::of("x", halved(&layer.tanh()?)?).with("skip1", layer),
            2 => Wires::of("x", halved(&layer.tanh()?)?).with("skip2", layer),
            7 => Wires::of("x", layer),
            _ => Wires::of("x", layer.tanh()?),
        })
    }

    fn objective(&self, pass: &Pass, batch: &MicroBatch, mut wires: Wires) -> Result<Loss> {
        Loss::mean(
            &wires
                .take("x")?
                .sub(&batch.input(pass, "clean")?)?
                .square()?,
        )
    }
}

/// Waves, clean and with noise, the same for every grid.
pub(crate) fn waves(step: u64, rows: std::ops::Range<usize>) -> train::Result<Rows> {
    let key = Key::new(3, "waves", step % 4);
    let clean = |i: usize| {
        let (row, place) = (i / LENGTH, i % LENGTH);
        let (phase, speed) = (key.uniform(2 * row as u64), key.uniform(2 * row as u64 + 1));
        f64::from(6.3 * phase + 0.3 * (1.0 + speed) * place as f32).sin()
    };
    let noise = Key::new(3, "noise", step);
    let elements = rows.start * LENGTH..rows.end * LENGTH;
    let noisy: Vec<f64> = elements
        .clone()
        .map(|i| clean(i) + 0.3 * noise.normal(i as u64))
        .collect();
    Ok(Rows::new().with("noisy", &[LENGTH], noisy).with(
        "clean",
        &[LENGTH],
        elements.map(clean).collect::<Vec<f64>>(),
    ))
}

/// Losses, and the bytes that this stage sent to others in the last step.
fn train(context: &Context, schedule: ScheduleKind) -> train::Result<(Vec<f64>, u64)> {
    let options = Options {
        batch: BATCH,
        micro_batches: 4,
        precision: Precision::F64,
        schedule,
        ..Options::default()
    };
    let mut trainer = Trainer::new(context, Encoder::new, AdamW::new(0.01), options)?;
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        context.reset_counters();
        losses.push(trainer.step(&trainer.batch(&FromFn(waves))?)?.loss);
    }
    let counters = context.counters();
    let sent = counters.get(Axis::Pipeline, Operation::Send, Subject::Pipeline);
    Ok((losses, sent.bytes))
}

fn main() -> train::Result<()> {
    let run = |grid, schedule| on(grid, move |context| train(context, schedule));
    let plain = ScheduleKind::OneForwardOneBackward;
    let serial = run("x=1", plain)?.expect("one rank").swap_remove(0).0;
    same("serial", &serial, &serial);
    assert!(
        serial[STEPS - 1] < 0.15 * serial[0],
        "it learns: {serial:?}"
    );
    let driven = ScheduleKind::MessageDriven { in_flight: None };
    let interleaved = ScheduleKind::Interleaved { chunks: 2 };
    for (grid, schedule) in [
        ("pipeline=4", plain),
        ("pipeline=4", driven),
        ("pipeline=2", interleaved),
        ("x=2,pipeline=2", plain),
        ("y=2,data=2", plain),
        ("z=2,pipeline=2", interleaved),
    ] {
        let Some(seen) = run(grid, schedule)? else {
            continue;
        };
        same(&format!("{grid}, {schedule}"), &seen[0].0, &serial);
        if grid == "pipeline=4" {
            // Elements per row that each stage sends, forward and back: x to its neighbours, skip2 between the
            // second and third stages, and skip1 between the first and the last, once and not through the stages in
            // the middle.
            let (x, skip1, skip2) = ([16, 8, 32], 32, 16);
            let elements = [
                x[0] + skip1,
                x[0] + x[1] + skip2,
                x[1] + skip2 + x[2],
                x[2] + skip1,
            ];
            let sent: Vec<u64> = seen.iter().map(|(_, bytes)| *bytes).collect();
            assert_eq!(sent, elements.map(|elements| (BATCH * elements * 8) as u64));
        }
    }
    Ok(())
}
