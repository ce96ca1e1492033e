//! Samples that no step trains on, in the batches of a validation.

use std::ops::Range;

use super::super::{Result, Sample, Settings, Tokenizer, order::check_range};
use super::{LossOn, part::Part};
use crate::batches::Rows;

/// Samples to validate on: the same rows in every validation.
#[derive(Debug, Clone)]
pub(in crate::data) struct Held {
    pub(super) part: Part,
    num_batches: usize,
    global_batch: usize,
    weight: f64,
}

impl Held {
    /// Tokenises samples and lays them into rows, in at most as many batches as the settings say.
    ///
    /// # Errors
    /// As [`Samples::new`](super::Samples::new).
    pub(in crate::data) fn new(
        samples: (&str, &[Sample]),
        tokenizer: &Tokenizer,
        (settings, loss): (&Settings, LossOn),
    ) -> Result<Held> {
        let part = Part::new(samples, tokenizer, (settings.context, loss), "validation")?;
        let rows = part.packing.num_rows();
        let mut held = Held {
            num_batches: settings
                .validation_batches
                .min(rows.div_ceil(settings.global_batch)),
            global_batch: settings.global_batch,
            part,
            weight: 0.0,
        };
        // The mean of the batches' losses is then that of all tokens that count, whatever batch holds how many.
        let total = held.num_batches * held.global_batch;
        let rows = (0..total).filter_map(|place| held.row(place));
        held.weight = held.part.weight(total, held.part.counted(rows));
        Ok(held)
    }

    pub(in crate::data) fn num_batches(&self) -> usize {
        self.num_batches
    }

    /// The rows at `rows` of batch `index`. Batches beyond its number start again from the first.
    ///
    /// # Errors
    /// [`Error::BatchRange`](super::super::Error::BatchRange) for rows beyond a batch.
    pub(in crate::data) fn rows(&self, index: usize, rows: Range<usize>) -> Result<Rows> {
        check_range("validation", &rows, self.global_batch)?;
        let first = index % self.num_batches * self.global_batch;
        let rows = rows.map(|row| self.row(first + row));
        Ok(self.part.rows(rows, self.weight))
    }

    // The rows of all batches, one behind the other; none where they are used up.
    fn row(&self, place: usize) -> Option<usize> {
        let rows = self.part.packing.num_rows();
        let total = self.num_batches * self.global_batch;
        match total >= rows {
            true => (place < rows).then_some(place),
            false => Some((place as u128 * rows as u128 / total as u128) as usize),
        }
    }
}
