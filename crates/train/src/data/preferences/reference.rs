//! The log-probabilities of the reference model: computed once, in batches of all rows, and kept.

use std::ops::Range;

use super::{Part, Preferences};
use crate::batches::Rows;

impl Preferences {
    /// The number of log-probabilities of a reference model: one for each sequence.
    pub fn num_sequences(&self) -> usize {
        2 * (self.training.num_pairs() + self.validation.num_pairs())
    }

    /// The same data with these log-probabilities: of the chosen and the rejected sequence of each pair, for training and then for
    /// validation; absent if there are not as many.
    pub fn with_reference(&self, log_probabilities: Vec<f64>) -> Option<Preferences> {
        (log_probabilities.len() == self.num_sequences()).then(|| Preferences {
            reference: Some(log_probabilities.into()),
            ..self.clone()
        })
    }

    /// The log-probabilities of the reference model, if they are known.
    pub fn reference(&self) -> Option<&[f64]> {
        self.reference.as_deref()
    }

    /// The batches that hold each row once: those for training and then those for validation.
    pub(crate) fn num_reference_batches(&self) -> usize {
        let batches = |part: &Part| part.num_rows().div_ceil(self.order.global_batch);
        batches(&self.training) + batches(&self.validation)
    }

    /// Rows of one of these batches, without numbers of a reference model.
    pub(crate) fn reference_rows(&self, batch: usize, rows: Range<usize>) -> Rows {
        let (part, _, first) = self.reference_part(batch);
        let rows = rows.map(|row| Some(first + row).filter(|row| *row < part.num_rows()));
        part.rows(rows, 1.0, &vec![0.0; 2 * part.num_pairs()])
    }

    /// For the sequences of a row of such a batch, in their order in the row, where each is among all log-probabilities.
    pub(crate) fn reference_places(&self, batch: usize, row: usize) -> Vec<usize> {
        let (part, before, first) = self.reference_part(batch);
        let row = Some(first + row).filter(|row| *row < part.num_rows());
        let pairs = row.into_iter().flat_map(|row| part.pairs(row));
        let places = pairs.flat_map(|pair| [2 * pair, 2 * pair + 1]);
        places.map(|place| before + place).collect()
    }

    // The part of a batch, the number of sequences before that part, and the first row of the batch in it.
    fn reference_part(&self, batch: usize) -> (&Part, usize, usize) {
        let size = self.order.global_batch;
        let of_training = self.training.num_rows().div_ceil(size);
        match batch.checked_sub(of_training) {
            None => (&self.training, 0, batch * size),
            Some(batch) => (
                &self.validation,
                2 * self.training.num_pairs(),
                batch * size,
            ),
        }
    }
}

/// The CRC-32 of all numbers.
pub(super) fn checksum(numbers: &[f64]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    numbers
        .iter()
        .for_each(|number| checksum.update(&number.to_le_bytes()));
    checksum.finalize()
}
