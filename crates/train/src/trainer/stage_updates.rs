//! A step whose stages update their weights by themselves, after each micro-batch.

use super::{StepOutcome, Trainer};
use crate::Result;
use grid::Axis;
use parallel::{Batch, Purpose, counters::Subject};
use tensor::{DType, ReduceOp, Tensor, ops};

impl Trainer {
    /// Runs the step's micro-batches, each with its update. Gradients are clipped by the norm of those of the stage, because the norm
    /// of all would be known only once the first stage has run backward. The norm of the outcome is the root of the mean of the
    /// squared norms of all gradients of each update. Collective.
    ///
    /// # Errors
    /// Those of [`Pipeline::train`](parallel::Pipeline::train) and of the updates.
    pub(super) fn update_by_stages(
        &self,
        batch: &Batch,
        next: Option<&Batch>,
    ) -> Result<StepOutcome> {
        let device = self.context.device();
        let d_loss = Tensor::full(device, self.dtype().accumulator(), &[1], 1.0)?;
        let squares = Tensor::zeros(device, DType::F64, &[1])?;
        let mut number = self.num_updates;
        let losses = self.pipeline.train(batch, next, &d_loss, |gradients| {
            let sum = gradients.stage_sum_squares()?;
            ops::axpby(1.0, &sum, 1.0, &squares)?;
            let factor = ops::optimiser::clip_scale(&sum, self.max_norm(), 1.0)?;
            number += 1;
            self.update(gradients, &factor, (batch.step, number))
        })?;
        if let Some(stages) = self.context.group(Axis::Pipeline, Purpose::Main)? {
            let compute = device.compute();
            stages.all_reduce(
                &self.context,
                Subject::Clipping,
                &compute,
                &squares,
                ReduceOp::Sum,
            )?;
        }
        let per_update = 1.0 / (self.num_updates_of_step() as f64).sqrt();
        Ok(StepOutcome {
            loss: self.mean(&losses, self.num_updates_of_step())?,
            norm: ops::optimiser::clip_scale(&squares, None, per_update)?.rows(1, 1)?,
            losses,
        })
    }
}
