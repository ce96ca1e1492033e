//! Tokens that no step trains on, in the batches of a validation.

use std::ops::Range;

use super::dataset::{Part, at_least_one};
use super::order::check_range;
use super::{Batch, Corpus, Result, Settings, validation_start};
use crate::batches::Rows;

/// A run of tokens to validate on: sequences spread evenly over it, the same in every validation.
#[derive(Debug, Clone)]
pub(super) struct Held {
    part: Part,
    num_batches: usize,
    context: usize,
    global_batch: usize,
}

impl Held {
    /// A part in `num_batches` batches.
    ///
    /// # Errors
    /// [`Error::Setting`](super::Error::Setting) for a count of 0.
    pub(super) fn new(part: Part, num_batches: usize, settings: &Settings) -> Result<Held> {
        at_least_one("context", settings.context)?;
        at_least_one("global batch", settings.global_batch)?;
        at_least_one("validation batches", num_batches)?;
        Ok(Held {
            part,
            num_batches,
            context: settings.context,
            global_batch: settings.global_batch,
        })
    }

    /// A whole corpus.
    ///
    /// # Errors
    /// As [`new`](Held::new); [`Error::TooShort`](super::Error::TooShort) for one without a sequence.
    pub(super) fn whole(corpus: Corpus, settings: &Settings) -> Result<Held> {
        let part = Part::whole(corpus);
        part.check_length(0, settings.context)?;
        Held::new(part, settings.validation_batches, settings)
    }

    pub(super) fn part(&self) -> &Part {
        &self.part
    }

    pub(super) fn num_batches(&self) -> usize {
        self.num_batches
    }

    /// As [`batch`](Held::batch), as columns.
    pub(super) fn rows(&self, index: usize, rows: Range<usize>) -> Result<Rows> {
        Ok(self.batch(index, rows)?.into_rows(self.context))
    }

    /// The sequences at `rows` of batch `index`. Batches beyond its number start again from the first.
    ///
    /// # Errors
    /// [`Error::BatchRange`](super::Error::BatchRange) for rows beyond a batch; those of the corpus.
    pub(super) fn batch(&self, index: usize, rows: Range<usize>) -> Result<Batch> {
        check_range("validation_batch", &rows, self.global_batch)?;
        let total = self.num_batches.saturating_mul(self.global_batch);
        let first = (index % self.num_batches).saturating_mul(self.global_batch);
        let length = self.part.len();
        let start = |row| validation_start(first.saturating_add(row), total, self.context, length);
        self.part.batch(self.context, rows.map(start))
    }
}
