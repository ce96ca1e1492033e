//! Your own model, trained on any grid by the same lines: a classifier with a hand-written gated layer, cut into
//! three segments. There is no backward code; the library inserts the redistributions that the layouts need, and
//! lists them.
//!
//! `cargo run --release --example 09_your_own_model`

use fascicle::launch;
use fascicle::nn::{Linear, Norm};
use fascicle::prelude::*;
use fascicle::train;

const BATCH: usize = 16;
const CLASSES: usize = 8;

/// A gated layer: value(x) * tanh(gate(x)).
struct Gated {
    value: Linear,
    gate: Linear,
}

impl Gated {
    fn new(builder: &Builder, features: usize) -> Result<Gated> {
        Ok(Gated {
            value: builder.linear("value", features, features)?,
            gate: builder.linear("gate", features, features)?,
        })
    }

    fn forward(&self, x: &DTensor) -> Result<DTensor> {
        self.value.forward(x)?.mul(&self.gate.forward(x)?.tanh()?)
    }
}

struct Classifier {
    input: Linear,
    gated: Gated,
    norm: Norm,
    hidden: Linear,
    head: Linear,
}

impl Classifier {
    fn new(builder: &Builder) -> Result<Classifier> {
        let [first, second, last] = [0, 1, 2].map(|segment| builder.segment(segment));
        Ok(Classifier {
            input: first.linear("input", 12, 32)?,
            gated: Gated::new(&first.scope("gated"), 32)?,
            norm: second.layer_norm("norm", 32, 1e-5)?,
            hidden: second.linear("hidden", 32, 32)?,
            head: last.linear("head", 32, CLASSES)?,
        })
    }
}

impl Model for Classifier {
    fn num_segments(&self) -> usize {
        3
    }

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let x = match segment {
            0 => {
                let x = self.input.forward_gelu(&input.activation("features")?)?;
                x.add(&self.gated.forward(&x)?)?
            }
            1 => {
                let x = wires.take("x")?;
                x.add(&self.hidden.forward(&self.norm.forward(&x)?)?.relu()?)?
            }
            _ => self.head.forward(&wires.take("x")?)?,
        };
        Ok(Wires::of("x", x))
    }

    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        wires
            .take("x")?
            .cross_entropy(input.tensor("labels")?, CLASSES)
    }
}

/// Rows by their number, the same for every grid.
struct Waves;

impl Batches for Waves {
    fn training(&self, _step: u64, rows: std::ops::Range<usize>) -> train::Result<Rows> {
        let features: Vec<f64> = (rows.start * 12..rows.end * 12)
            .map(|i| (i as f64 * 0.71).sin())
            .collect();
        let labels: Vec<u32> = rows.map(|row| (row * 5 % CLASSES) as u32).collect();
        Ok(Rows::new()
            .with("features", &[12], features)
            .with("labels", &[1], labels))
    }
}

/// Losses of five steps of gradient descent, and the report of what the library inserted.
fn losses(context: &Context) -> train::Result<(Vec<f64>, String)> {
    let options = Options {
        batch: BATCH,
        micro_batches: 2,
        precision: Precision::F64,
        ..Options::default()
    };
    let mut trainer = Trainer::new(context, Classifier::new, Sgd::new(0.1), options)?;
    let mut losses = Vec::new();
    for _ in 0..5 {
        let batch = trainer.batch(&Waves)?;
        losses.push(trainer.step(&batch)?.loss);
    }
    Ok((losses, context.report().to_string()))
}

fn run(degrees: Degrees) -> train::Result<(Vec<f64>, String)> {
    let grid = Grid::new(degrees, AxisOrder::default())?;
    Ok(launch(grid, Settings::default(), losses)?.swap_remove(0))
}

fn main() -> train::Result<()> {
    let (serial, _) = run(Degrees::default())?;
    launch::say(&format!("serial                {serial:.6?}"));
    for grid in [
        "x=2",
        "y=2",
        "pipeline=3",
        "z=2,data=2",
        "x=2,y=2",
        "x=2,z=2,pipeline=2",
    ] {
        let degrees: Degrees = grid.parse()?;
        // Under mpirun the number of ranks is fixed.
        if launch::num_processes().is_some_and(|ranks| degrees.world_size().ok() != Some(ranks)) {
            continue;
        }
        let (losses, report) = run(degrees)?;
        launch::say(&format!("{grid:<22}{losses:.6?}"));
        assert!(
            serial
                .iter()
                .zip(&losses)
                .all(|(a, b)| (a - b).abs() < 1e-12),
            "the same losses on {grid}"
        );
        if grid == "x=2,y=2" {
            launch::say(&format!("  what the library inserted there:\n{report}"));
        }
    }
    Ok(())
}
