//! A residual network with a loss of its own, written from operations: no backward anywhere. It learns to tell rings of
//! points apart, with the same losses on every grid; saved on one grid and resumed on another.
//!
//! `cargo run --release --example 10_residual_classifier`

mod on_grids;

use fascicle::{prelude::*, train};
use std::{f64::consts::TAU, ops::Range};

const CLASSES: usize = 3;
const HIDDEN: usize = 32;
const BLOCKS: usize = 4;
const BATCH: usize = 48;

struct Block {
    norm: Norm,
    up: Linear,
    down: Linear,
    gate: Parameter,
}

impl Block {
    /// x + gate * down(relu(up(norm(x)))), with a gate that starts small.
    fn forward(&self, x: &DTensor) -> Result<DTensor> {
        let inner = self.up.forward(&self.norm.forward(x)?)?.relu()?;
        x.add(&self.down.forward(&inner)?.scale_by(&self.gate)?)
    }
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

    fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
        let x = match segment {
            0 => self.input.forward(&input.activation("point")?)?,
            1..=BLOCKS => self.blocks[segment - 1].forward(&wires.take("x")?)?,
            _ => self.head.forward(&self.norm.forward(&wires.take("x")?)?)?,
        };
        Ok(Wires::of("x", x))
    }

    /// Focal loss on smoothed labels: -sum of target * (1 - p)^2 * log p.
    fn objective(&self, input: &Input<'_>, mut wires: Wires) -> Result<Loss> {
        let log_p = wires.take("x")?.log_softmax()?;
        let focus = log_p.exp()?.neg()?.shift(1.0)?.square()?;
        let target = log_p.one_hot(input.tensor("label")?)?;
        let target = target.scale(0.9)?.shift(0.1 / CLASSES as f64)?;
        Loss::mean(&log_p.mul(&focus)?.mul(&target)?.sum_features()?.neg()?)
    }
}

fn label(row: usize) -> u32 {
    (row % CLASSES) as u32
}

/// Points on three rings around the origin, the same for every grid.
pub(crate) fn rings(step: u64, rows: Range<usize>) -> train::Result<Rows> {
    let key = Key::new(7, "rings", step);
    let point = |row: usize| {
        let [turn, width] = [0, 1].map(|draw| f64::from(key.uniform(2 * row as u64 + draw)));
        let radius = 0.3 + f64::from(label(row)) + 0.3 * width;
        [(TAU * turn).cos(), (TAU * turn).sin()].map(|unit| radius * unit)
    };
    let columns = Rows::new().each("point", rows.clone(), point);
    Ok(columns.each("label", rows, label))
}

fn trainer(context: &Context) -> train::Result<Trainer> {
    let options = Options::new(BATCH, 4).precision(Precision::F64);
    Trainer::new(context, Classifier::new, AdamW::new(0.01), options)
}

fn main() -> train::Result<()> {
    let serial = on_grids::serial(trainer, rings, 100)?;
    for grid in ["pipeline=2", "x=2,pipeline=2", "data=2,y=2", "z=2"] {
        on_grids::same(grid, trainer, rings, &serial)?;
    }
    on_grids::resumed(["x=2,pipeline=2", "y=2,data=2"], trainer, rings, &serial)?;
    let share = on_grids::on("x=1", |context| {
        let mut trainer = trainer(context)?;
        trainer.train_until(100, &rings)?;
        let unseen = trainer.predict(&trainer.batch(&rings)?)?;
        unseen.accuracy("x", (0..BATCH).map(label))
    })?;
    assert!(share.is_none_or(|share| share[0] > 0.95), "few are right");
    Ok(())
}
