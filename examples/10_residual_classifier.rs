//! A residual network with its own loss, written from operations without any backward code. It is trained on rings
//! of points to a stated accuracy, with the same losses on every grid, and saved on one grid and resumed on
//! another.
//!
//! `cargo run --release --example 10_residual_classifier`

mod on_grids;

use fascicle::hal::random::Key;
use fascicle::nn::{Linear, Norm};
use fascicle::prelude::*;
use fascicle::train::{self, batches::FromFn, config::Precision};
use on_grids::{on, same};

const CLASSES: usize = 3;
const HIDDEN: usize = 32;
const BLOCKS: usize = 4;
const STEPS: usize = 100;

/// x + gate * down(relu(up(norm(x)))), with a gate that starts small.
struct Block {
    norm: Norm,
    up: Linear,
    down: Linear,
    gate: Parameter,
}

pub(crate) struct Classifier {
    input: Linear,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
}

impl Classifier {
    pub(crate) fn new(builder: &Builder) -> Result<Classifier> {
        let block = |index: usize| {
            let builder = builder.segment(1 + index).scope(&format!("block{index}"));
            Ok(Block {
                norm: builder.layer_norm("norm", HIDDEN, 1e-5)?,
                up: builder.linear("up", HIDDEN, 2 * HIDDEN)?,
                down: builder.linear_transposed("down", 2 * HIDDEN, HIDDEN)?,
                gate: builder.scalar("gate", 0.1)?,
            })
        };
        let last = builder.segment(1 + BLOCKS);
        Ok(Classifier {
            input: builder.linear_transposed("input", 2, HIDDEN)?,
            blocks: (0..BLOCKS).map(block).collect::<Result<_>>()?,
            norm: last.layer_norm("norm", HIDDEN, 1e-5)?,
            head: last.linear("head", HIDDEN, CLASSES)?,
        })
    }
}

impl Model for Classifier {
    fn num_segments(&self) -> usize {
        BLOCKS + 2
    }

    fn forward(
        &self,
        segment: usize,
        pass: &Pass,
        batch: &MicroBatch,
        mut wires: Wires,
    ) -> Result<Wires> {
        let x = match segment {
            0 => self.input.forward(&batch.input(pass, "point")?)?,
            _ => wires.take("x")?,
        };
        let out = match self.blocks.get(segment.wrapping_sub(1)) {
            Some(block) => {
                let inner = block.up.forward(&block.norm.forward(&x)?)?.relu()?;
                x.add(&block.down.forward(&inner)?.scale_by(&block.gate)?)?
            }
            None if segment == 0 => x,
            None => self.head.forward(&self.norm.forward(&x)?)?,
        };
        Ok(Wires::of("x", out))
    }

    /// Focal loss on smoothed labels: -sum of target * (1 - p)^2 * log p.
    fn objective(&self, pass: &Pass, batch: &MicroBatch, mut wires: Wires) -> Result<Loss> {
        let log_p = wires.take("x")?.log_softmax()?;
        let focus = log_p.exp()?.neg()?.shift(1.0)?.square()?;
        let dtype = log_p.tensor().dtype();
        let hot = DTensor::one_hot(pass, batch.tensor("label")?, CLASSES, dtype)?;
        let target = hot.scale(0.9)?.shift(0.1 / CLASSES as f64)?;
        Loss::mean(&log_p.mul(&focus)?.mul(&target)?.sum_features()?.neg()?)
    }
}

/// Points on three rings around the origin, the same for every grid.
pub(crate) fn rings(step: u64, rows: std::ops::Range<usize>) -> train::Result<Rows> {
    let key = Key::new(7, "rings", step);
    let label = |row: usize| row % CLASSES;
    let point = |row: usize| {
        let angle = std::f64::consts::TAU * f64::from(key.uniform(2 * row as u64));
        let radius = 0.3 + label(row) as f64 + 0.3 * f64::from(key.uniform(2 * row as u64 + 1));
        [radius * angle.cos(), radius * angle.sin()]
    };
    Ok(Rows::new()
        .with(
            "point",
            &[2],
            rows.clone().flat_map(point).collect::<Vec<f64>>(),
        )
        .with(
            "label",
            &[],
            rows.map(|row| label(row) as u32).collect::<Vec<u32>>(),
        ))
}

fn trainer(context: &Context) -> train::Result<Trainer> {
    let options = Options {
        batch: 48,
        micro_batches: 4,
        precision: Precision::F64,
        ..Options::default()
    };
    Trainer::new(context, Classifier::new, AdamW::new(0.01), options)
}

fn steps(trainer: &mut Trainer, until: usize) -> train::Result<Vec<f64>> {
    let mut losses = Vec::new();
    while trainer.next_step() < until as u64 {
        losses.push(trainer.step(&trainer.batch(&FromFn(rings))?)?.loss);
    }
    Ok(losses)
}

/// The fraction of this rank's rows whose most likely class is correct.
fn accuracy(trainer: &Trainer) -> train::Result<f64> {
    let (mut right, mut rows) = (0.0, 0.0);
    let batch = trainer.batch(&FromFn(rings))?;
    for (wires, columns) in trainer.predict(&batch)?.iter().zip(&batch.micro_batches) {
        let Some(logits) = wires.get("x") else {
            continue;
        };
        let logits = logits.whole("accuracy")?.tensor().to_f64()?;
        let labels = columns.tensor("label")?.to_vec::<u32>()?;
        for (row, label) in logits.chunks(CLASSES).zip(labels) {
            let best = (0..CLASSES).max_by(|a, b| row[*a].total_cmp(&row[*b]));
            right += f64::from(u8::from(best == Some(label as usize)));
            rows += 1.0;
        }
    }
    Ok(right / rows)
}

fn main() -> train::Result<()> {
    let whole = |context: &Context| {
        let mut trainer = trainer(context)?;
        Ok((steps(&mut trainer, STEPS)?, accuracy(&trainer)?))
    };
    let (serial, accuracy) = on("x=1", whole)?.expect("one rank").swap_remove(0);
    same(
        &format!("serial, {:.0} % right", 100.0 * accuracy),
        &serial,
        &serial,
    );
    assert!(accuracy > 0.95, "the rings are distinguished");
    for grid in [
        "x=2",
        "pipeline=2",
        "x=2,pipeline=2",
        "data=2",
        "z=2",
        "y=2",
        "z=2,pipeline=3",
    ] {
        if let Some(seen) = on(grid, whole)? {
            same(grid, &seen[0].0, &serial);
        }
    }
    // Half of the steps on one grid, the rest on another.
    let folder = std::env::temp_dir().join(format!("fascicle-rings-{}", std::process::id()));
    let to = folder.clone();
    let first = on("x=2,pipeline=2", move |context| {
        let mut trainer = trainer(context)?;
        Ok((steps(&mut trainer, STEPS / 2)?, trainer.save(&to)?))
    })?;
    if let Some((losses, saved)) = first.map(|mut ranks| ranks.swap_remove(0)) {
        same("x=2,pipeline=2, saved", &losses, &serial[..STEPS / 2]);
        let second = on("y=2,data=2", move |context| {
            let mut trainer = trainer(context)?;
            trainer.resume(&saved)?;
            steps(&mut trainer, STEPS)
        })?;
        let losses = &second.expect("as many ranks")[0];
        same("y=2,data=2, resumed", losses, &serial[STEPS / 2..]);
        std::fs::remove_dir_all(folder).ok();
    }
    Ok(())
}
