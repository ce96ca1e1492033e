//! Forward and backward of a step, recorded once and queued in one call.
//!
//! A model so small that the device waits for the host gains by that. What a step computes with by value is the same in
//! every step: there is no dropout, and the scale of the loss is read from memory. The update is queued as ever: its
//! learning rate changes.

use super::Trainer;
use crate::{Error, Result, config::TrainingConfig};
use nn::{Batch, gpt::MicroBatch};
use parallel::Context;
use tensor::{Recording, Tensor, ops};

/// Refuses recorded steps on a device that records nothing.
///
/// # Errors
/// [`Error::Config`] with the device.
pub(super) fn check(context: &Context, training: &TrainingConfig) -> Result<()> {
    match training.graph && !context.device().capabilities().records_work {
        true => {
            let found = format!("{}, which records no work", context.device().id());
            Err(Error::Config(format!(
                "training.graph: found {found}, needs a CUDA or ROCm device"
            )))
        }
        false => Ok(()),
    }
}

impl Trainer {
    // The first step runs as it is: it makes what the later ones need, and times products.
    pub(super) fn recorded_or_not(
        &mut self,
        batch: &nn::Batch,
    ) -> Result<(Tensor, Vec<(usize, Tensor)>)> {
        if !(self.config.training.graph && self.has_agreed) {
            return self.gradients(batch);
        }
        let recorded = match self.recorded.take() {
            Some(recorded) => recorded,
            None => Recorded::new(self, batch)?,
        };
        let results = recorded.run(batch, self.loss_scale.value);
        self.recorded = Some(recorded);
        results
    }
}

/// A recorded step.
#[derive(Debug)]
pub(super) struct Recorded {
    recording: Recording,
    // Where the recorded work reads its tokens and the scale of the loss.
    batch: Batch,
    d_loss: Tensor,
    mean: Tensor,
    losses: Vec<(usize, Tensor)>,
}

impl Recorded {
    /// Records a step on batches of the shape of this one.
    ///
    /// # Errors
    /// [`Error::Parallel`] where the device records nothing; those of the step.
    pub(super) fn new(trainer: &Trainer, batch: &Batch) -> Result<Recorded> {
        let device = trainer.context.device();
        let batch = Batch {
            micro_batches: batch
                .micro_batches
                .iter()
                .map(copied)
                .collect::<Result<_>>()?,
            ..batch.clone()
        };
        let d_loss = Tensor::full(
            device,
            trainer.dtype().accumulator(),
            &[1],
            trainer.loss_scale.value,
        )?;
        let (recording, (mean, losses)) =
            device.record(|| trainer.gradients_of(&batch, &d_loss))?;
        Ok(Recorded {
            recording,
            batch,
            d_loss,
            mean,
            losses,
        })
    }

    /// Runs the step on this batch: afterwards the parameters hold its gradients. Gives what
    /// [`Trainer::gradients`] gives.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn run(
        &self,
        batch: &Batch,
        loss_scale: f64,
    ) -> Result<(Tensor, Vec<(usize, Tensor)>)> {
        for (own, given) in self.batch.micro_batches.iter().zip(&batch.micro_batches) {
            ops::copy(&given.inputs, &own.inputs)?;
            ops::copy(&given.targets, &own.targets)?;
        }
        self.d_loss.fill(loss_scale)?;
        self.recording.replay()?;
        Ok((self.mean.clone(), self.losses.clone()))
    }
}

fn copied(micro_batch: &MicroBatch) -> Result<MicroBatch> {
    let copied = |tensor: &Tensor| {
        let copy = Tensor::empty(tensor.device(), tensor.dtype(), tensor.shape())?;
        ops::copy(tensor, &copy)?;
        Ok::<_, tensor::Error>(copy)
    };
    let (inputs, targets) = (copied(&micro_batch.inputs)?, copied(&micro_batch.targets)?);
    Ok(MicroBatch {
        inputs,
        targets,
        ..micro_batch.clone()
    })
}
