//! Samples that no step trains on, in the batches of a validation.

use std::ops::Range;

use super::super::{Result, Sample, Settings, Tokenizer, order::check_range};
use super::{LossOn, part::Part};
use crate::batches::Rows;

/// Samples to validate on: the same rows in every validation.
#[derive(Debug, Clone)]
pub(in crate::data) struct Held {
    pub(super) part: Part,
    held: HeldRows,
    weight: f64,
}

/// Which rows the batches of a validation hold.
#[derive(Debug, Clone, Copy)]
pub(in crate::data) struct HeldRows {
    num_batches: usize,
    global_batch: usize,
    rows: usize,
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
        let held = HeldRows::new(part.packing.num_rows(), settings);
        // The mean of the batches' losses is then that of all tokens that count, whatever batch holds how many.
        let total = held.total();
        let rows = (0..total).filter_map(|place| held.row(place));
        let weight = part.weight(total, part.counted(rows));
        Ok(Held { part, held, weight })
    }

    pub(in crate::data) fn num_batches(&self) -> usize {
        self.held.num_batches
    }

    /// The rows at `rows` of batch `index`. Batches beyond its number start again from the first.
    ///
    /// # Errors
    /// [`Error::BatchRange`](super::super::Error::BatchRange) for rows beyond a batch.
    pub(in crate::data) fn rows(&self, index: usize, rows: Range<usize>) -> Result<Rows> {
        let rows = self.held.rows(index, rows)?;
        Ok(self.part.rows(rows, self.weight))
    }
}

impl HeldRows {
    /// Those of a part with `rows` rows: all, or as many batches as the settings allow.
    pub(in crate::data) fn new(rows: usize, settings: &Settings) -> HeldRows {
        HeldRows {
            num_batches: settings
                .validation_batches
                .min(rows.div_ceil(settings.global_batch)),
            global_batch: settings.global_batch,
            rows,
        }
    }

    pub(in crate::data) fn num_batches(self) -> usize {
        self.num_batches
    }

    /// Rows of all batches.
    pub(in crate::data) fn total(self) -> usize {
        self.num_batches * self.global_batch
    }

    /// The row at a place among those of all batches; none where they are used up.
    pub(in crate::data) fn row(self, place: usize) -> Option<usize> {
        let (rows, total) = (self.rows, self.total());
        match total >= rows {
            true => (place < rows).then_some(place),
            false => Some((place as u128 * rows as u128 / total as u128) as usize),
        }
    }

    /// The rows at `rows` of batch `index`. Batches beyond the number start again from the first.
    ///
    /// # Errors
    /// [`Error::BatchRange`](super::super::Error::BatchRange) for rows beyond a batch.
    pub(in crate::data) fn rows(
        self,
        index: usize,
        rows: Range<usize>,
    ) -> Result<impl Iterator<Item = Option<usize>>> {
        check_range("validation", &rows, self.global_batch)?;
        let first = index % self.num_batches * self.global_batch;
        Ok(rows.map(move |row| self.row(first + row)))
    }
}
