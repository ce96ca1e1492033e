//! One part of the samples, for training or for validation, in rows.

use std::sync::Arc;

use super::super::{Error, Result, Sample, Tokenizer};
use super::{LossOn, columns::Columns, encoded::Encoded, packing::Packing};
use crate::batches::{Rows, Values};

#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) encoded: Arc<Encoded>,
    pub(super) packing: Arc<Packing>,
    // The tokens of each row that count.
    counted: Arc<Vec<u32>>,
    checksum: u32,
    context: usize,
    padding: u32,
}

/// What became of the samples of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Samples in it.
    pub samples: usize,
    /// Tokens in them that count.
    pub counted: usize,
    /// Rows in which they lie.
    pub rows: usize,
    /// Tokens in the rows that belong to no sample.
    pub padding: usize,
    /// Samples that were cut because they are longer than a row.
    pub cut: usize,
    /// Samples that were left out because nothing in a row of them counts.
    pub dropped: usize,
}

impl Part {
    /// Tokenises samples and lays them into rows.
    pub(super) fn new(
        (name, samples): (&str, &[Sample]),
        tokenizer: &Tokenizer,
        (context, loss): (usize, LossOn),
        what: &'static str,
    ) -> Result<Part> {
        let encoded = Encoded::new((name, samples), tokenizer, (context, loss))?;
        if encoded.len() == 0 {
            let found = samples.len();
            return Err(Error::Samples {
                name: name.to_owned(),
                reason: match found {
                    0 => format!("found no sample for {what}, needs at least 1"),
                    _ => format!(
                        "none of {found} samples for {what} has an answer within {context} tokens, needs at least 1 that has"
                    ),
                },
            });
        }
        let lengths: Vec<usize> = (0..encoded.len())
            .map(|sample| encoded.places(sample))
            .collect();
        let packing = Packing::new(&lengths, context);
        let counted = |row: usize| {
            let counts = packing
                .row(row)
                .flat_map(|sample| &encoded.sample(sample).1[1..]);
            counts.filter(|counts| **counts).count() as u32
        };
        Ok(Part {
            counted: Arc::new((0..packing.num_rows()).map(counted).collect()),
            packing: Arc::new(packing),
            checksum: encoded.checksum(),
            encoded: Arc::new(encoded),
            context,
            padding: tokenizer.document_end().unwrap_or(0),
        })
    }

    /// The columns of these rows; none is a row of padding.
    pub(super) fn rows(&self, rows: impl Iterator<Item = Option<usize>>, weight: f64) -> Rows {
        let mut columns = Columns::default();
        let mut num_rows = 0;
        for row in rows {
            num_rows += 1;
            if let Some(row) = row {
                for sample in self.packing.row(row) {
                    columns.push(self.encoded.sample(sample), self.context);
                }
            }
            columns.pad(num_rows * self.context, self.padding, self.context);
        }
        let shape = [self.context];
        Rows::new()
            .with("inputs", &shape, columns.inputs)
            .with("targets", &shape, columns.targets)
            .with("documents", &shape, columns.documents)
            .with("places", &shape, columns.places)
            .with("loss_weight", &[], Values::Weights(vec![weight; num_rows]))
    }

    /// Tokens of `rows` rows over those that count.
    pub(super) fn weight(&self, rows: usize, counted: u64) -> f64 {
        (rows * self.context) as f64 / counted as f64
    }

    /// The tokens of these rows that count.
    pub(super) fn counted(&self, rows: impl Iterator<Item = usize>) -> u64 {
        rows.map(|row| u64::from(self.counted[row])).sum()
    }

    /// What became of its samples.
    pub(super) fn packed(&self) -> Packed {
        let samples = self.encoded.len();
        let used: usize = (0..samples).map(|sample| self.encoded.places(sample)).sum();
        let rows = self.packing.num_rows();
        Packed {
            samples,
            counted: self.counted.iter().map(|counted| *counted as usize).sum(),
            rows,
            padding: rows * self.context - used,
            cut: self.encoded.num_cut,
            dropped: self.encoded.num_dropped,
        }
    }

    /// The number of samples and the checksum of their tokens and marks.
    pub(super) fn fingerprint(&self) -> String {
        format!("{} samples of {:08x}", self.encoded.len(), self.checksum)
    }
}
