//! A model of one's own, built serial and parallel by the same lines: a classifier with a residual, a layer written by
//! hand and a norm. No backward is written anywhere; the library inserts what the layouts need, and says so.
//!
//! `cargo run --release --example 09_your_own_model`

use fascicle::launch;
use fascicle::nn::{Linear, Norm};
use fascicle::parallel::tensor::cross_entropy;
use fascicle::prelude::*;
use fascicle::tensor::{autograd, ops};

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
        Ok(Classifier {
            input: builder.linear("input", 12, 32)?,
            gated: Gated::new(&builder.scope("gated"), 32)?,
            norm: builder.layer_norm("norm", 32, 1e-5)?,
            hidden: builder.linear("hidden", 32, 32)?,
            head: builder.linear("head", 32, CLASSES)?,
        })
    }

    fn forward(&self, x: &DTensor) -> Result<DTensor> {
        let x = self.input.forward_gelu(x)?;
        let x = x.add(&self.gated.forward(&x)?)?;
        let x = x.add(&self.hidden.forward(&self.norm.forward(&x)?)?.relu()?)?;
        self.head.forward(&x)
    }
}

/// Losses of five steps of gradient descent, and what the library inserted.
fn train(context: &Context) -> Result<(Vec<f64>, String)> {
    let options = SetOptions {
        dtype: DType::F64,
        trains: true,
        num_states: 0,
        sharded: false,
    };
    let model = auto_parallelize(context, options, Classifier::new)?;
    let (data, z) = (context.degree(Axis::Data), context.degree(Axis::Z));
    let rows = BATCH / (data * z);
    let first = (context.index(Axis::Data) * z + context.index(Axis::Z)) * rows;
    let inputs: Vec<f64> = (first * 12..(first + rows) * 12)
        .map(|i| (i as f64 * 0.71).sin())
        .collect();
    let labels: Vec<u32> = (first..first + rows)
        .map(|i| (i * 5 % CLASSES) as u32)
        .collect();
    let labels = Tensor::from_slice(context.device(), &[rows], &labels)?;
    let one = Tensor::full(context.device(), DType::F64, &[1], 1.0)?;
    let mut losses = Vec::new();
    for _ in 0..5 {
        model.parameters.begin_step()?;
        let x = DTensor::input(
            context,
            Tensor::from_slice(context.device(), &[rows, 12], &inputs)?,
        );
        let loss = cross_entropy(
            model.module.forward(&x)?,
            &labels,
            CLASSES,
            1.0 / BATCH as f64,
        )?;
        losses.push(loss.var.tensor().item()?);
        autograd::backward(vec![(loss.var, one.clone())])?;
        model.parameters.end_backward()?;
        let norm = model.parameters.gradient_sum_squares()?;
        let factor = ops::optimiser::clip_scale(&norm, None, 1.0)?;
        ops::optimiser::sgd(
            context.device(),
            &model.parameters.updates(0.0)?,
            &factor,
            0.1,
            0.0,
        )?;
    }
    Ok((losses, context.report().to_string()))
}

fn run(degrees: Degrees) -> Result<(Vec<f64>, String)> {
    let grid = Grid::new(degrees, AxisOrder::default()).expect("degrees of at least 1");
    let ranks = launch(grid, Settings::default(), train)?;
    // The loss of the batch is the sum over ranks that hold different rows; those along x and y repeat it.
    let repeats = (degrees.x * degrees.y) as f64;
    let sum = |step: usize| ranks.iter().map(|(losses, _)| losses[step]).sum::<f64>() / repeats;
    Ok(((0..5).map(sum).collect(), ranks[0].1.clone()))
}

fn main() -> Result<()> {
    let (serial, _) = run(Degrees::default())?;
    launch::say(&format!("serial              {serial:.6?}"));
    for grid in ["x=2", "y=2", "x=2,y=2", "z=2,data=2", "x=2,y=2,z=2"] {
        let degrees: Degrees = grid.parse().expect("a grid");
        // Under mpirun the number of ranks is given.
        if launch::num_processes().is_some_and(|ranks| degrees.world_size().ok() != Some(ranks)) {
            continue;
        }
        let (losses, report) = run(degrees)?;
        launch::say(&format!("{grid:<20}{losses:.6?}"));
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
