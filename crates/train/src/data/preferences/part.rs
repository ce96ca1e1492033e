//! One part of the pairs, for training or for validation, in rows.

use std::sync::Arc;

use super::{
    super::{
        Error, Packed, Result, Sample, Tokenizer,
        samples::{Columns, Encoded, Packing},
    },
    PairOptions, encoded,
};
use crate::batches::{Rows, Values};

#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    encoded: Arc<Encoded>,
    packing: Arc<Packing>,
    /// The pairs for which each row has room in the columns that hold something for each pair.
    pub(super) most_pairs: usize,
    context: usize,
    padding: u32,
    options: PairOptions,
}

impl Part {
    /// Tokenises pairs and lays them into rows.
    pub(super) fn new(
        (name, samples): (&str, &[Sample]),
        tokenizer: &Tokenizer,
        (context, options): (usize, PairOptions),
        what: &'static str,
    ) -> Result<Part> {
        let encoded = encoded::encoded((name, samples), tokenizer, context)?;
        if encoded.len() == 0 {
            let reason = match samples.len() {
                0 => format!("found no pair for {what}, needs at least 1"),
                found => format!(
                    "none of {found} pairs for {what} has both answers within {context} tokens, needs at least 1 that has"
                ),
            };
            let name = name.to_owned();
            return Err(Error::Samples { name, reason });
        }
        let places = |pair: usize| encoded.places(2 * pair) + encoded.places(2 * pair + 1);
        let lengths: Vec<usize> = (0..encoded.len() / 2).map(places).collect();
        let packing = Packing::new(&lengths, context);
        let in_rows = (0..packing.num_rows()).map(|row| packing.row(row).count());
        Ok(Part {
            name: name.to_owned(),
            most_pairs: in_rows.max().unwrap_or(0),
            packing: Arc::new(packing),
            encoded: Arc::new(encoded),
            context,
            padding: tokenizer.document_end().unwrap_or(0),
            options,
        })
    }

    /// Number of pairs.
    pub(super) fn num_pairs(&self) -> usize {
        self.encoded.len() / 2
    }

    /// Number of rows.
    pub(super) fn num_rows(&self) -> usize {
        self.packing.num_rows()
    }

    /// The pairs of a row.
    pub(super) fn pairs(&self, row: usize) -> impl Iterator<Item = usize> {
        self.packing.row(row)
    }

    /// Their number.
    pub(super) fn pairs_in(&self, row: usize) -> usize {
        self.pairs(row).count()
    }

    /// The columns of these rows; none is a row of padding. `known` holds the log-probabilities of both sequences of each pair.
    pub(super) fn rows(
        &self,
        rows: impl Iterator<Item = Option<usize>>,
        weight: f64,
        known: &[f64],
    ) -> Rows {
        let mut columns = Columns::default();
        let (mut sequences, mut labels, mut reference) = (Vec::new(), Vec::new(), Vec::new());
        let smoothing = self.options.label_smoothing;
        let mut num_rows = 0;
        for row in rows {
            num_rows += 1;
            let pairs = row.into_iter().flat_map(|row| self.pairs(row));
            for (place, pair) in pairs.enumerate() {
                for sequence in [2 * pair, 2 * pair + 1] {
                    columns.push(self.encoded.sample(sequence), self.context);
                    sequences.resize(columns.inputs.len(), (2 * place + sequence % 2) as u32);
                }
                labels.extend([1.0 - smoothing, smoothing]);
                reference.extend_from_slice(&known[2 * pair..2 * pair + 2]);
            }
            columns.pad(num_rows * self.context, self.padding, self.context);
            sequences.resize(columns.inputs.len(), 0);
            labels.resize(2 * num_rows * self.most_pairs, 0.0);
            reference.resize(labels.len(), 0.0);
        }
        let (tokens, pairs) = ([self.context], [self.most_pairs, 2]);
        Rows::new()
            .with("inputs", &tokens, columns.inputs)
            .with("targets", &tokens, columns.targets)
            .with("documents", &tokens, columns.documents)
            .with("places", &tokens, columns.places)
            .with("sequences", &tokens, sequences)
            .with("labels", &pairs, Values::Weights(labels))
            .with("reference", &pairs, Values::Weights(reference))
            .with("loss_weight", &[], Values::Weights(vec![weight; num_rows]))
    }

    /// What became of its pairs.
    pub(super) fn packed(&self) -> Packed {
        let sequences = 0..self.encoded.len();
        let used: usize = sequences.clone().map(|one| self.encoded.places(one)).sum();
        let counted = |one| {
            let (_, counts) = self.encoded.sample(one);
            counts.iter().skip(1).filter(|counts| **counts).count()
        };
        let rows = self.num_rows();
        Packed {
            samples: self.num_pairs(),
            counted: sequences.map(counted).sum(),
            rows,
            padding: rows * self.context - used,
            cut: self.encoded.num_cut,
            dropped: self.encoded.num_dropped,
        }
    }

    /// The number of pairs and the checksum of their tokens and marks.
    pub(super) fn fingerprint(&self) -> String {
        let (pairs, sum) = (self.num_pairs(), self.encoded.checksum());
        format!("{pairs} pairs of {sum:08x}")
    }
}
