//! A denoising encoder whose skip connections cross pipeline stages: what the first stage keeps for the last one goes there
//! once, past the stages between, and under every schedule the losses are those of one rank.
//!
//! `cargo run --release --example 11_skip_encoder`

mod on_grids;

use fascicle::{prelude::*, train};
use std::{array::from_fn, ops::Range};

const LENGTH: usize = 32;
/// What the layer of each segment reads and gives: input, two halvings, two at the bottom, two doublings, output.
const READS: [usize; 8] = [32, 32, 16, 8, 8, 32, 64, 32];
const GIVES: [usize; 8] = [32, 32, 16, 8, 16, 32, 32, 32];

pub(crate) struct Encoder([Linear; 8]);

impl Encoder {
    pub(crate) fn new(builder: &Builder) -> Result<Encoder> {
        let layer = |segment: usize| {
            let (builder, name) = (builder.segment(segment), format!("layer{segment}"));
            builder.linear(&name, READS[segment], GIVES[segment])
        };
        let layers: Vec<Linear> = (0..8).map(layer).collect::<Result<_>>()?;
        Ok(Encoder(layers.try_into().expect("eight layers")))
    }
}

/// The mean of every two neighbours of a signal.
fn halved(x: &DTensor) -> Result<DTensor> {
    let length = x.features() / 2;
    x.reshape(&[length, 2])?.mean_features()?.reshape(&[length])
}

impl Model for Encoder {
    fn num_segments(&self) -> usize {
        8
    }

    // All alike: a pipeline of four gets two of them on each stage.
    fn cost(&self, _segment: usize) -> Option<f64> {
        Some(1.0)
    }

    fn routes(&self) -> Vec<Route> {
        let chain = (0..8).map(|segment| Route::new("x", segment, segment + 1));
        let skips = [Route::new("skip1", 1, 6), Route::new("skip2", 2, 5)];
        chain.chain(skips).collect()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let x = match segment {
            0 => input.activation("noisy")?,
            5 => DTensor::concat(&[&wires.take("x")?, &wires.take("skip2")?], 1)?,
            6 => DTensor::concat(&[&wires.take("x")?, &wires.take("skip1")?], 1)?,
            _ => wires.take("x")?,
        };
        let layer = self.0[segment].forward(&x)?;
        Ok(match segment {
            1 => Wires::of("x", halved(&layer.tanh()?)?).with("skip1", layer),
            2 => Wires::of("x", halved(&layer.tanh()?)?).with("skip2", layer),
            7 => Wires::of("x", layer),
            _ => Wires::of("x", layer.tanh()?),
        })
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let error = wires.take("x")?.sub(&input.activation("clean")?)?;
        Loss::mean(&error.square()?)
    }
}

/// Waves, clean and with noise, the same for every grid.
pub(crate) fn waves(step: u64, rows: Range<usize>) -> train::Result<Rows> {
    let (waves, noise) = (Key::new(3, "waves", step % 4), Key::new(3, "noise", step));
    let clean = |row: usize| {
        let [phase, speed] = [0, 1].map(|draw| waves.uniform(2 * row as u64 + draw));
        from_fn(|i| f64::from(6.3 * phase + 0.3 * (1.0 + speed) * i as f32).sin())
    };
    let noisy = |row: usize| {
        let clean: [f64; LENGTH] = clean(row);
        let noise = |i: usize| 0.3 * noise.normal((row * LENGTH + i) as u64);
        from_fn::<_, LENGTH, _>(|i| clean[i] + noise(i))
    };
    let columns = Rows::new().each("noisy", rows.clone(), noisy);
    Ok(columns.each("clean", rows, clean))
}

pub(crate) fn trainer(
    schedule: ScheduleKind,
) -> impl Fn(&Context) -> train::Result<Trainer> + Copy + Send + Sync {
    move |context| {
        let options = Options::new(16, 4).schedule(schedule);
        let options = options.precision(Precision::F64);
        Trainer::new(context, Encoder::new, AdamW::new(0.01), options)
    }
}

fn main() -> train::Result<()> {
    let plain = ScheduleKind::default();
    let driven = ScheduleKind::MessageDriven { in_flight: None };
    let interleaved = ScheduleKind::Interleaved { chunks: 2 };
    let serial = on_grids::serial(trainer(plain), waves, 60)?;
    assert!(serial[59] < 0.15 * serial[0], "it learns: {serial:?}");
    for (grid, schedule) in [
        ("pipeline=4", driven),
        ("pipeline=2", interleaved),
        ("y=2,data=2", plain),
        ("z=2,pipeline=2", interleaved),
    ] {
        on_grids::same(grid, trainer(schedule), waves, &serial)?;
    }
    on_grids::resumed(["pipeline=4", "x=2,z=2"], trainer(plain), waves, &serial)
}
