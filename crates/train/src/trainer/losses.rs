//! Losses of batches, and their means over ranks.

use super::Trainer;
use crate::{
    Result,
    batches::{Batches, Validation},
    preference::PairSums,
};
use grid::Axis;
use parallel::{
    Batch, Purpose, Reproducible, counters::Subject, layers::loss::LossValue, model::Input,
};
use tensor::{ReduceOp, Tensor, ops};

impl Trainer {
    /// The losses of all sets of a validation; the same on every rank. Collective.
    ///
    /// # Errors
    /// Those of `data`; [`Error::Parallel`](crate::Error::Parallel) from layers and collectives.
    pub fn validate(&self, data: &dyn Batches) -> Result<Validation> {
        Ok(self.validate_until(data, || false)?.unwrap_or_default())
    }

    /// As [`validate`](Trainer::validate), but ends without a result after the batch during which a rank `wants_stop`.
    /// Collective.
    ///
    /// # Errors
    /// As [`validate`](Trainer::validate).
    pub fn validate_until(
        &self,
        data: &dyn Batches,
        wants_stop: impl Fn() -> bool,
    ) -> Result<Option<Validation>> {
        let (mut losses, mut pairs) = (Vec::new(), PairSums::default());
        for set in data.validation_sets() {
            let (batches, mut sum) = (set.batches.clone(), 0.0);
            let count = batches.len() as f64;
            for index in batches {
                if self.context.world().everyone().any(wants_stop())? {
                    return Ok(None);
                }
                let batch = self.batch_of(0, |rows| data.validation(index, rows))?;
                let of_batch = self.losses(&batch)?;
                sum += self.number(&self.mean(&of_batch, 1)?)?;
                self.add_pairs(&batch, &of_batch, &mut pairs)?;
            }
            losses.push((set, sum / count));
        }
        Ok(Some(Validation {
            preferences: pairs.means(),
            ..Validation::of(losses)
        }))
    }

    /// Mean loss of a batch, without training on it; the same on every rank. Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from layers and collectives.
    pub fn loss(&self, batch: &Batch) -> Result<f64> {
        self.number(&self.mean(&self.losses(batch)?, 1)?)
    }

    // Number and loss of each micro-batch, on the last stage, without training on it.
    pub(super) fn losses(&self, batch: &Batch) -> Result<Vec<(usize, LossValue)>> {
        let model = self.pipeline.model();
        let losses = self.pipeline.evaluate(batch, |pass, rows, wires| {
            let loss = model.objective(&Input::new(pass, rows), wires)?;
            Ok(loss.to_value())
        })?;
        Ok(losses.into_iter().enumerate().collect())
    }

    // The sum of micro-batch losses over all ranks that hold different rows; only the last stage contributes. Losses are shares of
    // the mean over the rows of one of `updates`.
    //
    // Where sums are to be reproducible, every row has a place of its own until all are there: sums of one number and
    // zeros are exact in any order.
    pub(super) fn mean(&self, losses: &[(usize, LossValue)], updates: usize) -> Result<Tensor> {
        let (context, cut) = (&self.context, self.row_cut());
        let by_row = context.settings().reproducible == Reproducible::Grid;
        let places = if by_row { cut.batch } else { 1 };
        let sum = Tensor::zeros(context.device(), self.dtype().accumulator(), &[places])?;
        for (micro_batch, loss) in losses {
            let place = match by_row {
                true => {
                    let rows = cut.range(context, *micro_batch);
                    sum.rows(rows.start, rows.len())?
                }
                false => sum.clone(),
            };
            ops::axpby(1.0 / updates as f64, &loss.value, 1.0, &place)?;
        }
        let compute = context.device().compute();
        for axis in [Axis::Z, Axis::Data, Axis::Pipeline] {
            if let Some(group) = context.group(axis, Purpose::Main)? {
                group.all_reduce(context, Subject::Loss, &compute, &sum, ReduceOp::Sum)?;
            }
        }
        match by_row {
            true => Ok(ops::row_sum(&sum.reshape(&[1, places])?)?.reshape(&[1])?),
            false => Ok(sum),
        }
    }

    // On a device without values there is nothing to report, and nothing depends on the number.
    pub(super) fn number(&self, tensor: &Tensor) -> Result<f64> {
        match self.context.device().capabilities().holds_values {
            true => Ok(tensor.item()?),
            false => Ok(0.0),
        }
    }
}
