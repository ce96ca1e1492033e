//! Batches: the rows that a step reads, whatever the grid.
//!
//! [`Batches`] returns any rows of a global batch, so that each rank requests its own and the order depends on
//! neither the grid nor the ranks. [`Rows`] are columns on the host, given in full or row by row as a
//! [`RowValue`]; [`RowCut`] says which rows a rank holds, and [`Trainer::batch_of`](crate::Trainer::batch_of) uploads them.

mod rows;
mod validation;
mod value;

pub use parallel::RowCut;
pub use rows::{Rows, Values};
pub(crate) use validation::locate;
pub use validation::{Validation, ValidationSet};
pub use value::RowValue;

use crate::{Error, Result, data::Preferences};
use std::ops::Range;

/// The source of training and validation rows. A pure function of its arguments: the same rows in the same
/// order for every grid, and after a resume.
pub trait Batches: Send + Sync {
    /// The rows at these indices of the global batch of training step `step`, counted from 0. [`Trainer::fit`](crate::Trainer::fit) asks
    /// for them while the device works on the step before.
    ///
    /// # Errors
    /// Whatever the source of the data reports.
    fn training(&self, step: u64, rows: Range<usize>) -> Result<Rows>;

    /// The rows at these indices of a validation batch: the same in every validation.
    ///
    /// # Errors
    /// As [`training`](Batches::training).
    fn validation(&self, index: usize, _rows: Range<usize>) -> Result<Rows> {
        Err(Error::setting(
            "validation",
            format_args!("a request for batch {index}"),
            "batches that have one",
        ))
    }

    /// Number of batches per validation.
    fn num_validation_batches(&self) -> usize {
        0
    }

    /// The sets of which a validation consists, each with batches of its own: all batches are one, unless they have several
    /// sources.
    fn validation_sets(&self) -> Vec<ValidationSet> {
        let batches = 0..self.num_validation_batches();
        let set = || ValidationSet {
            name: "validation".into(),
            batches: batches.clone(),
            weight: 1.0,
        };
        (!batches.is_empty()).then(set).into_iter().collect()
    }

    /// A text that differs for other data, however it is named or stored; a run is resumed with the data of its checkpoint
    /// only. `None` compares nothing.
    fn fingerprint(&self) -> Option<String> {
        None
    }

    /// The pairs, if the rows are of those and need the log-probabilities of a reference model.
    fn preferences(&self) -> Option<&Preferences> {
        None
    }
}

/// A function that returns the rows of a training step is a source of batches, without validation.
impl<F: Fn(u64, Range<usize>) -> Result<Rows> + Send + Sync> Batches for F {
    fn training(&self, step: u64, rows: Range<usize>) -> Result<Rows> {
        self(step, rows)
    }
}
