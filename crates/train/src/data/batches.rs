//! Text as batches: columns `inputs` and `targets`, sequences of tokens.

use super::{Batch, Dataset};
use crate::{
    Result,
    batches::{Batches, Rows},
};
use std::ops::Range;

impl Batches for Dataset {
    fn training(&self, step: u64, rows: Range<usize>) -> Result<Rows> {
        Ok(self.batch(step, rows)?.into_rows(self.order().context))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> Result<Rows> {
        let batch = self.validation_batch(index, rows)?;
        Ok(batch.into_rows(self.order().context))
    }

    fn num_validation_batches(&self) -> usize {
        self.validation_batches()
    }

    fn fingerprint(&self) -> Option<String> {
        Some(Dataset::fingerprint(self))
    }
}

impl Batch {
    /// The columns of sequences of `context` tokens.
    pub fn into_rows(self, context: usize) -> Rows {
        Rows::new().with("inputs", &[context], self.inputs).with(
            "targets",
            &[context],
            self.targets,
        )
    }
}
