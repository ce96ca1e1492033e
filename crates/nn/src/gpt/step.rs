//! A model with the data of a step, as the pipeline's engine runs it.

use super::Gpt;
use grid::Axis;
use parallel::{
    DTensor, Error, Position, Result,
    pipeline::{Activation, Output, Stages},
    tensor::cross_entropy,
};
use tensor::{DType, Tensor};

/// The tokens of one micro-batch on this rank.
#[derive(Clone, Debug)]
pub struct MicroBatch {
    /// sequences x context, u32.
    pub inputs: Tensor,
    /// As `inputs`: the token after each. Only stages with the head read it.
    pub targets: Tensor,
    /// Index, within the global batch, of the first of these sequences.
    pub first_sequence: usize,
}

/// The tokens of a step on this rank.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Number of the training step, which keys dropout.
    pub step: u64,
    /// The micro-batches, all of one shape.
    pub micro_batches: Vec<MicroBatch>,
    /// Tokens of the whole batch, on all ranks: the loss is the mean over them.
    pub num_tokens: usize,
}

/// What a run of the model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The loss, with dropout.
    Training,
    /// The loss, without.
    Validation,
    /// The logits after the last token of each sequence.
    Logits,
}

/// A model with the data of a step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    model: &'a Gpt,
    batch: &'a Batch,
    wanted: Wanted,
    dtype: DType,
}

impl Gpt {
    /// The model with the data of a step, in activations of type `dtype`.
    pub fn step<'a>(&'a self, batch: &'a Batch, wanted: Wanted, dtype: DType) -> Step<'a> {
        Step {
            model: self,
            batch,
            wanted,
            dtype,
        }
    }
}

impl Stages for Step<'_> {
    fn forward(&self, micro_batch: usize, chunk: usize, input: Option<DTensor>) -> Result<Output> {
        let needed = || format!("a number below {}", self.batch.micro_batches.len());
        let found = || Error::invalid("micro-batch", micro_batch.to_string(), needed());
        let data = self
            .batch
            .micro_batches
            .get(micro_batch)
            .ok_or_else(found)?;
        self.model.context.set_position(Position {
            step: self.batch.step,
            first_sequence: data.first_sequence,
            training: self.wanted == Wanted::Training,
        });
        let (out, is_last) = self.model.forward(chunk, input, data)?;
        if !is_last {
            return Ok(Output::Activation(out));
        }
        let vocabulary = self.model.config.vocabulary;
        match self.wanted {
            Wanted::Logits => Ok(Output::Logits(out)),
            _ => cross_entropy(
                out,
                &data.targets,
                vocabulary,
                1.0 / self.batch.num_tokens as f64,
            )
            .map(Output::Loss),
        }
    }

    fn activation(&self) -> Activation {
        let context = &self.model.context;
        let hidden = self.model.config.hidden;
        let local =
            grid::shard_range(hidden, context.degree(Axis::Y), context.index(Axis::Y)).len();
        let tokens = self
            .batch
            .micro_batches
            .first()
            .map_or(&[][..], |data| data.inputs.shape());
        Activation {
            shape: [tokens, &[local]].concat(),
            dtype: self.dtype,
            features: hidden,
            cut: Some(Axis::Y),
        }
    }
}
