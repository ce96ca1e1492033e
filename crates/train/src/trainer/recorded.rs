//! Forward and backward of a step, recorded once and queued in one call.
//!
//! Recording helps a model that is so small that the device waits for the host. A recorded step repeats the numbers
//! that were passed to its kernels, so these must not change: there is no dropout, and the loss scale is read from
//! memory. The update is queued as usual, because its learning rate changes.

use super::{Options, Trainer, trainer::Computed};
use crate::{Error, Result};
use hal::error::Counted;
use parallel::{Batch, Context};
use tensor::{Recording, Tensor, ops};

/// Refuses recorded steps on a device that cannot record, on several ranks, and with memory that the host moves within a step.
///
/// # Errors
/// [`Error::Setting`] with the device, the number of ranks, or the placement that it needs.
pub(super) fn check(context: &Context, options: &Options) -> Result<()> {
    let refuse = |found: String, needed: &str| Err(Error::setting("training.graph", found, needed));
    if !options.graph {
        return Ok(());
    }
    if !context.device().capabilities().records_work {
        let found = format!("{}, which records no work", context.device().id());
        return refuse(found, "a CUDA or ROCm device");
    }
    if options.memory.is_beyond() {
        let found = "activations that leave the device";
        return refuse(found.into(), "placement.activations = \"device\"");
    }
    if options.places.has_pages() {
        let found = "weights or gradients that leave the device";
        return refuse(
            found.into(),
            "placement.weights and placement.gradients = \"device\"",
        );
    }
    // Collectives run on separate streams, which are not recorded.
    match context.world().size() {
        1 => Ok(()),
        ranks => refuse(format!("{ranks} ranks"), "1 rank"),
    }
}

impl Trainer {
    // The first step runs without recording: it makes what later steps need, and times matmuls.
    pub(super) fn recorded_or_not(
        &mut self,
        batch: &Batch,
        next: Option<&Batch>,
    ) -> Result<Computed> {
        if !(self.options.graph && self.has_agreed) {
            return self.gradients_before(batch, next);
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
    // The memory from which the recorded work reads its rows and the loss scale.
    batch: Batch,
    d_loss: Tensor,
    computed: Computed,
}

impl Recorded {
    /// Records a step on batches with the shape of this one.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model that draws random masks, because each replay would draw the same ones;
    /// [`Error::Parallel`] if the device cannot record; those of the step.
    pub(super) fn new(trainer: &Trainer, batch: &Batch) -> Result<Recorded> {
        if trainer.parameters().draws_masks() {
            let found = "a model that draws random masks";
            return Err(Error::setting("training.graph", found, "no dropout"));
        }
        let device = trainer.context.device();
        let copied = |tensor: &Tensor| {
            let copy = Tensor::empty(tensor.device(), tensor.dtype(), tensor.shape())?;
            ops::copy(tensor, &copy)?;
            Ok(copy)
        };
        let own = batch.micro_batches.iter().map(|rows| rows.map(copied));
        let batch = Batch {
            micro_batches: own.collect::<tensor::Result<_>>()?,
            ..*batch
        };
        let dtype = trainer.dtype().accumulator();
        let d_loss = Tensor::full(device, dtype, &[1], trainer.loss_scale.value)?;
        let (recording, computed) =
            device.record(|| trainer.gradients_of((&batch, None), &d_loss))?;
        Ok(Recorded {
            recording,
            batch,
            d_loss,
            computed,
        })
    }

    /// Runs the step on this batch; afterwards the parameters hold its gradients. Returns the same as
    /// [`Trainer::gradients`].
    ///
    /// # Errors
    /// [`Error::Setting`] for another number of micro-batches than the recorded one; [`Error::Parallel`] for other columns
    /// or shapes, and from the device.
    pub(super) fn run(&self, batch: &Batch, loss_scale: f64) -> Result<Computed> {
        if batch.micro_batches.len() != self.batch.micro_batches.len() {
            let found = Counted(batch.micro_batches.len(), "micro-batch");
            let needed = self.batch.micro_batches.len();
            return Err(Error::setting("recorded step", found, needed.to_string()));
        }
        for (own, given) in self.batch.micro_batches.iter().zip(&batch.micro_batches) {
            for (name, own) in own.columns() {
                ops::copy(given.tensor(name)?, own)?;
            }
        }
        self.d_loss.fill(loss_scale)?;
        self.recording.replay()?;
        Ok(Computed {
            gradients: self.computed.gradients.replayed(),
            loss: self.computed.loss.clone(),
            losses: self.computed.losses.clone(),
        })
    }
}
