//! What a trainer reports of pairs, and the log-probabilities that its model gives them.

use super::Trainer;
use crate::{
    Error, Result,
    data::Preferences,
    preference::{PairSums, PreferenceMetrics, thirds},
};
use grid::Axis;
use parallel::{Batch, Purpose, counters::Subject, layers::loss::LossValue};
use tensor::{ReduceOp, Tensor, ops};

impl Trainer {
    /// The log-probabilities of all sequences of `data` by the model as it is now, for
    /// [`Preferences::with_reference`]; the same on every rank. Calls `progress` after each batch with the fraction that is done. Collective.
    ///
    /// # Cost
    /// A forward pass over all rows.
    /// # Errors
    /// [`Error::Setting`] for a model without the objective of pairs; [`Error::Parallel`] from layers and collectives.
    pub fn reference(&self, data: &Preferences, progress: impl Fn(f64)) -> Result<Vec<f64>> {
        let mut found = vec![0.0; data.num_sequences()];
        let batches = data.num_reference_batches();
        for index in 0..batches {
            let batch = self.batch_of(0, |rows| Ok(data.reference_rows(index, rows)))?;
            let losses = self.losses(&batch)?;
            let Some((rows, width)) = self.reported(&batch, &losses)? else {
                let needed = "a configuration with training.objective = \"dpo\"";
                return Err(Error::setting(
                    "reference",
                    "a model that reports no pairs",
                    needed,
                ));
            };
            for (row, numbers) in rows.chunks(width).enumerate() {
                let [log_probabilities, ..] = thirds(numbers);
                let places = data.reference_places(index, row);
                for (place, number) in places.into_iter().zip(log_probabilities) {
                    found[place] = *number;
                }
            }
            progress((index + 1) as f64 / batches as f64);
        }
        Ok(found)
    }

    /// The means over the pairs of a batch, if its rows are of those. Collective.
    pub(super) fn preferences(
        &self,
        batch: &Batch,
        losses: &[(usize, LossValue)],
    ) -> Result<Option<PreferenceMetrics>> {
        let mut sums = PairSums::default();
        self.add_pairs(batch, losses, &mut sums)?;
        Ok(sums.means())
    }

    /// Adds the pairs of a batch, if its rows are of those. Collective.
    pub(super) fn add_pairs(
        &self,
        batch: &Batch,
        losses: &[(usize, LossValue)],
        sums: &mut PairSums,
    ) -> Result<()> {
        if let Some((rows, width)) = self.reported(batch, losses)? {
            sums.add(&rows, width);
        }
        Ok(())
    }

    // What all rows of the global batch report, and the numbers of each. Each row has a place of its own until all are there.
    fn reported(
        &self,
        batch: &Batch,
        losses: &[(usize, LossValue)],
    ) -> Result<Option<(Vec<f64>, usize)>> {
        let (context, cut) = (&self.context, self.row_cut());
        let first = batch.micro_batches.first();
        // Labels alone may be those of classes.
        let labels = first.filter(|rows| rows.get("reference").is_some());
        let Some(labels) = labels.and_then(|rows| rows.get("labels")) else {
            return Ok(None);
        };
        let rows = labels.shape().first().copied().unwrap_or_default().max(1);
        let width = 3 * labels.num_elements() / rows;
        if !context.device().capabilities().holds_values {
            return Ok(None);
        }
        let dtype = self.dtype().accumulator();
        let all = Tensor::zeros(context.device(), dtype, &[cut.batch, width])?;
        for (micro_batch, loss) in losses {
            let Some(pairs) = &loss.pairs else { continue };
            let rows = cut.range(context, *micro_batch);
            ops::copy(pairs, &all.rows(rows.start, rows.len())?)?;
        }
        let compute = context.device().compute();
        for axis in [Axis::Z, Axis::Data, Axis::Pipeline] {
            if let Some(group) = context.group(axis, Purpose::Main)? {
                group.all_reduce(context, Subject::Loss, &compute, &all, ReduceOp::Sum)?;
            }
        }
        Ok(Some((all.to_f64()?, width)))
    }
}
