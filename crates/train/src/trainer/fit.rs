//! A loop of training steps with callbacks.

use super::{FullestRank, StepResult, Trainer};
use crate::{Result, batches::Batches};
use parallel::Batch;
use std::{ops::ControlFlow, time::Instant};

/// A step that [`Trainer::fit`] has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepDone {
    /// The result of the step.
    pub result: StepResult,
    /// Wall-clock seconds on this rank, including the making of a batch: that of the next step.
    pub seconds: f64,
    /// The memory of the fullest rank after the step.
    pub memory: FullestRank,
    /// Whether it is the last step, either of all or because a rank asked to stop.
    pub is_last: bool,
}

/// Callbacks around the steps of [`Trainer::fit`], on every rank. They may run collectives, such as a
/// validation or a checkpoint, as long as all ranks do. A closure is called after each step.
pub trait Callback {
    /// Before a step.
    ///
    /// # Errors
    /// Whatever ends the loop.
    fn before_step(&mut self, _trainer: &mut Trainer) -> Result<()> {
        Ok(())
    }

    /// Whether the loop is to end after the step just done. A request on one rank ends it on all.
    fn wants_stop(&mut self) -> bool {
        false
    }

    /// After a step. [`ControlFlow::Break`] ends the loop at once; all ranks must return the same.
    ///
    /// # Errors
    /// Whatever ends the loop.
    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<ControlFlow<()>>;
}

impl<F: FnMut(&mut Trainer, &StepDone) -> Result<()>> Callback for F {
    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<ControlFlow<()>> {
        self(trainer, done).map(ControlFlow::Continue)
    }
}

impl Trainer {
    /// Trains until `steps` steps are done in all and returns the loss of each step that it ran: none if a
    /// resumed trainer has done them already. [`fit`](Trainer::fit) calls back after each step instead.
    /// Collective.
    ///
    /// # Errors
    /// Those of [`step`](Trainer::step) and of [`batch`](Trainer::batch).
    pub fn train_until(&mut self, steps: u64, data: &dyn Batches) -> Result<Vec<f64>> {
        let mut losses = Vec::new();
        self.fit(data, steps, &mut |_: &mut Trainer, done: &StepDone| {
            losses.push(done.result.loss);
            Ok(())
        })?;
        Ok(losses)
    }

    /// Trains until `steps` steps are done in all, or until `callback` stops it on any rank; returns the last
    /// step, if there was one. Collective.
    ///
    /// # Errors
    /// Those of [`step`](Trainer::step), of [`batch`](Trainer::batch) and of `callback`.
    pub fn fit(
        &mut self,
        data: &dyn Batches,
        steps: u64,
        callback: &mut dyn Callback,
    ) -> Result<Option<StepDone>> {
        // Made while the device worked on the step before; its failure belongs to the step that needs it.
        let (mut last, mut ahead) = (None, None);
        while self.next_step < steps {
            callback.before_step(self)?;
            let begun = Instant::now();
            let batch = match ahead.take() {
                Some((step, batch)) if step == self.next_step => batch?,
                _ => self.batch(data)?,
            };
            let announced = match self.options.schedule.delays_gradients() {
                true => self.batch_after(&batch, steps, data).transpose()?,
                false => None,
            };
            let (result, next) =
                self.step_beside(&batch, announced.as_ref(), |trainer| match &announced {
                    Some(_) => None,
                    None => trainer.batch_after(&batch, steps, data),
                })?;
            ahead = (announced.map(Ok).or(next)).map(|next| (batch.step + 1, next));
            let seconds = begun.elapsed().as_secs_f64();
            // As late as possible, because a rank that is told to stop has little time.
            let (context, wants_stop) = (&self.context, callback.wants_stop());
            let (stops, memory) =
                FullestRank::agree(context.world(), context.device(), wants_stop)?;
            let is_last = stops || self.next_step == steps;
            let done = StepDone {
                result,
                seconds,
                memory,
                is_last,
            };
            last = Some(done);
            if callback.after_step(self, &done)?.is_break() || stops {
                break;
            }
        }
        Ok(last)
    }

    // The rows of the step after that of `batch`, if there is one.
    fn batch_after(&self, batch: &Batch, steps: u64, data: &dyn Batches) -> Option<Result<Batch>> {
        let step = batch.step + 1;
        (step < steps).then(|| self.batch_of(step, |rows| data.training(step, rows)))
    }
}
