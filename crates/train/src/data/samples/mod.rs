//! Samples to learn from, such as questions and their answers: several to a row, none cut by another.
//!
//! Read in this order: `encoded` (a sample as tokens, and which of them count), `packing` (which samples share a row), and
//! [`Samples`] (the batches).

mod encoded;
mod packing;

use std::ops::Range;
use std::sync::Arc;

use super::{
    Content, Error, Order, OrderMode, Result, Sample, Settings, Tokenizer,
    dataset::{at_least_one, check_fraction},
};
use crate::batches::{Batches, Rows, Values};
pub use encoded::LossOn;
use encoded::{Encoded, samples_of};
use packing::Packing;

/// The target of a token that does not count.
const NO_TARGET: u32 = u32::MAX;

/// Samples of tokens, their training and validation parts, and the order.
///
/// # Shapes
/// A row holds `context` tokens: whole samples, and behind them padding. Its columns are `inputs` and `targets` as of a
/// [`Dataset`](super::Dataset), with `u32::MAX` for targets that do not count; `documents`, where the sample of each token
/// begins in the row, and `places`, the token's place in it, so that a sample has in a row what it has alone; and
/// `loss_weight`, tokens of the batch over those that count: times it, the mean over all tokens is the mean over those.
///
/// A model that reads no other columns than `inputs` and `targets` would let samples see each other
/// ([`separates_samples`](crate::Architecture::separates_samples)).
#[derive(Debug, Clone)]
pub struct Samples {
    training: Part,
    validation: Part,
    order: Order,
    context: usize,
    padding: u32,
    validation_batches: usize,
}

#[derive(Debug, Clone)]
struct Part {
    encoded: Arc<Encoded>,
    packing: Arc<Packing>,
    // The tokens of each row that count.
    counted: Arc<Vec<u32>>,
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

impl Samples {
    /// Tokenises samples and lays them into rows. Without samples of its own for validation, the last ones are kept for it.
    ///
    /// # Errors
    /// As [`Dataset::split`](super::Dataset::split); [`Error::Samples`] for chats without a template and for a part of which
    /// nothing counts; [`Error::Template`]; [`Error::TokenRange`] for a tokenizer of numbers.
    pub fn new(
        training: Content,
        validation: Option<Content>,
        tokenizer: &Tokenizer,
        (settings, loss): (&Settings, LossOn),
    ) -> Result<Samples> {
        at_least_one("context", settings.context)?;
        at_least_one("global batch", settings.global_batch)?;
        at_least_one("validation batches", settings.validation_batches)?;
        let (name, training) = samples_of(training)?;
        let other = validation.map(samples_of).transpose()?;
        let kept = match other {
            Some(_) => training.len(),
            None => {
                check_fraction(settings.validation_fraction)?;
                let held = (training.len() as f64 * settings.validation_fraction).round() as usize;
                // Two samples are enough for both.
                training.len() - held.clamp(1, (training.len() - 1).max(1))
            }
        };
        let (own, rest) = training.split_at(kept);
        let part = |name: &str, samples: &[Sample], what| {
            Part::new((name, samples), tokenizer, (settings.context, loss), what)
        };
        let validation = match &other {
            Some((name, samples)) => part(name, samples, "validation")?,
            None => part(&name, rest, "validation")?,
        };
        let training = part(&name, own, "training")?;
        let rows = training.packing.num_rows();
        Ok(Samples {
            order: Order {
                mode: OrderMode::Epoch,
                seed: settings.seed,
                context: 1,
                length: rows + 1,
                global_batch: settings.global_batch,
            },
            validation_batches: settings.validation_batches.min(
                validation
                    .packing
                    .num_rows()
                    .div_ceil(settings.global_batch),
            ),
            training,
            validation,
            context: settings.context,
            padding: tokenizer.document_end().unwrap_or(0),
        })
    }

    /// What became of the samples of the training part and of the validation part.
    pub fn packed(&self) -> [Packed; 2] {
        [&self.training, &self.validation].map(|part| part.packed(self.context))
    }

    fn columns(&self, part: &Part, rows: impl Iterator<Item = Option<usize>>, weight: f64) -> Rows {
        let mut columns = Columns::default();
        let mut num_rows = 0;
        for row in rows {
            num_rows += 1;
            if let Some(row) = row {
                for sample in part.packing.row(row) {
                    columns.push(part.encoded.sample(sample), self.context);
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

    // Tokens of `rows` rows over those that count.
    fn weight(&self, rows: usize, counted: u64) -> f64 {
        (rows * self.context) as f64 / counted as f64
    }

    // The rows of all validation batches, one behind the other; none where they are used up.
    fn validation_row(&self, place: usize) -> Option<usize> {
        let rows = self.validation.packing.num_rows();
        let total = self.validation_batches * self.order.global_batch;
        match total >= rows {
            true => (place < rows).then_some(place),
            false => Some((place as u128 * rows as u128 / total as u128) as usize),
        }
    }

    fn check_range(&self, operation: &'static str, range: &Range<usize>) -> Result<()> {
        let (start, end, global_batch) = (range.start, range.end, self.order.global_batch);
        match start <= end && end <= global_batch {
            true => Ok(()),
            false => Err(Error::BatchRange {
                operation,
                start,
                end,
                global_batch,
            }),
        }
    }
}

impl Batches for Samples {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        self.check_range("training", &rows)?;
        let counted = (0..self.order.global_batch)
            .map(|index| u64::from(self.training.counted[self.order.start(step, index)]))
            .sum();
        let weight = self.weight(self.order.global_batch, counted);
        let rows = rows.map(|index| Some(self.order.start(step, index)));
        Ok(self.columns(&self.training, rows, weight))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        self.check_range("validation", &rows)?;
        let batch = self.order.global_batch;
        let total = self.validation_batches * batch;
        let counted = (0..total)
            .filter_map(|place| self.validation_row(place))
            .map(|row| u64::from(self.validation.counted[row]))
            .sum();
        // The mean of the batches' losses is then that of all tokens that count, whatever batch holds how many.
        let weight = self.weight(total, counted);
        let first = index % self.validation_batches * batch;
        let rows = rows.map(|row| self.validation_row(first + row));
        Ok(self.columns(&self.validation, rows, weight))
    }

    fn num_validation_batches(&self) -> usize {
        self.validation_batches
    }

    fn fingerprint(&self) -> Option<String> {
        let part = |part: &Part| {
            let (samples, checksum) = (part.encoded.len(), part.encoded.checksum());
            format!("{samples} samples of {checksum:08x}")
        };
        Some(format!(
            "{}, {}",
            part(&self.training),
            part(&self.validation)
        ))
    }
}

impl Part {
    fn new(
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
            encoded: Arc::new(encoded),
        })
    }

    fn packed(&self, context: usize) -> Packed {
        let samples = self.encoded.len();
        let used: usize = (0..samples).map(|sample| self.encoded.places(sample)).sum();
        let rows = self.packing.num_rows();
        Packed {
            samples,
            counted: self.counted.iter().map(|counted| *counted as usize).sum(),
            rows,
            padding: rows * context - used,
            cut: self.encoded.num_cut,
            dropped: self.encoded.num_dropped,
        }
    }
}

/// The columns of rows that are being filled.
#[derive(Default)]
struct Columns {
    inputs: Vec<u32>,
    targets: Vec<u32>,
    documents: Vec<u32>,
    places: Vec<u32>,
}

impl Columns {
    fn push(&mut self, (tokens, counts): (&[u32], &[bool]), context: usize) {
        let start = (self.inputs.len() % context) as u32;
        let inputs = &tokens[..tokens.len() - 1];
        self.inputs.extend_from_slice(inputs);
        let targets = tokens.iter().zip(counts).skip(1);
        self.targets
            .extend(targets.map(|(token, counts)| match counts {
                true => *token,
                false => NO_TARGET,
            }));
        self.documents.extend(inputs.iter().map(|_| start));
        self.places.extend((0..).take(inputs.len()));
    }

    // Each token of padding is a sample of its own, so that none attends far.
    fn pad(&mut self, length: usize, token: u32, context: usize) {
        let places = self.inputs.len()..length;
        self.documents
            .extend(places.map(|place| (place % context) as u32));
        self.inputs.resize(length, token);
        self.targets.resize(length, NO_TARGET);
        self.places.resize(length, 0);
    }
}

#[cfg(test)]
mod tests;
