//! Which sequences of the global batch are this rank's.

use crate::{Result, data::Dataset};
use grid::Axis;
use nn::{Batch, MicroBatch};
use parallel::Context;
use std::ops::Range;
use tensor::Tensor;

/// How the global batch is cut: over Data, then in micro-batches, then over Z. Each piece is a run of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Sequences in the global batch.
    pub batch: usize,
    /// Micro-batches of a replica.
    pub micro_batches: usize,
}

impl Shares {
    /// The sequences of a micro-batch that this rank holds.
    pub fn range(&self, context: &Context, micro_batch: usize) -> Range<usize> {
        let replica = self.batch / context.degree(Axis::Data);
        let micro = replica / self.micro_batches;
        let own = micro / context.degree(Axis::Z);
        let start = context.index(Axis::Data) * replica
            + micro_batch * micro
            + context.index(Axis::Z) * own;
        start..start + own
    }

    /// This rank's tokens of a training step.
    ///
    /// # Errors
    /// Those of the data and of the device.
    pub fn training(&self, context: &Context, data: &Dataset, step: u64) -> Result<Batch> {
        self.cut(context, step, |range| Ok(data.batch(step, range)?))
    }

    /// This rank's tokens of a validation batch.
    ///
    /// # Errors
    /// Those of the data and of the device.
    pub fn validation(&self, context: &Context, data: &Dataset, index: usize) -> Result<Batch> {
        self.cut(context, 0, |range| Ok(data.validation_batch(index, range)?))
    }

    /// This rank's tokens, from a function that gives any range of the global batch.
    ///
    /// # Errors
    /// Those of `tokens` and of the device.
    pub fn cut(
        &self,
        context: &Context,
        step: u64,
        tokens: impl Fn(Range<usize>) -> Result<crate::data::Batch>,
    ) -> Result<Batch> {
        let mut micro_batches = Vec::with_capacity(self.micro_batches);
        let mut sequence = 0;
        for index in 0..self.micro_batches {
            let range = self.range(context, index);
            let (rows, first_sequence) = (range.len(), range.start);
            let tokens = tokens(range)?;
            sequence = tokens.inputs.len() / rows.max(1);
            let upload = |ids: &[u32]| Tensor::from_slice(context.device(), &[rows, sequence], ids);
            let (inputs, targets) = (upload(&tokens.inputs)?, upload(&tokens.targets)?);
            micro_batches.push(MicroBatch {
                inputs,
                targets,
                first_sequence,
            });
        }
        Ok(Batch {
            step,
            micro_batches,
            num_tokens: self.batch * sequence,
        })
    }
}
