//! Samples to learn from, such as questions and their answers: several to a row, none cut by another.
//!
//! Read in this order: `encoded` (a sample as tokens, and which of them count), `packing` (which samples share a row),
//! `part` (both, for training or for validation), `columns` (the columns of rows) and [`Samples`] (the batches).

mod columns;
mod encoded;
mod packing;
mod part;

use std::ops::Range;

use super::{
    Content, Order, OrderMode, Result, Sample, Settings, Tokenizer,
    dataset::{at_least_one, check_fraction},
};
use crate::batches::{Batches, Rows, Values};
use columns::Columns;
pub use encoded::LossOn;
use encoded::samples_of;
pub use part::Packed;
use part::Part;

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
    validation_weight: f64,
}

impl Samples {
    /// Tokenises samples and lays them into rows. Without samples of its own for validation, the last ones are kept for it.
    ///
    /// # Errors
    /// As [`Dataset::split`](super::Dataset::split); [`Error::Samples`](super::Error::Samples) for chats without a template and for a part of which
    /// nothing counts; [`Error::Template`](super::Error::Template); [`Error::TokenRange`](super::Error::TokenRange) for a tokenizer of numbers.
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
                let most = training.len().saturating_sub(1).max(1);
                training.len().saturating_sub(held.clamp(1, most))
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
        let batch = settings.global_batch;
        let validation_batches = settings
            .validation_batches
            .min(validation.packing.num_rows().div_ceil(batch));
        let mut samples = Samples {
            order: Order {
                mode: OrderMode::Epoch,
                seed: settings.seed,
                context: 1,
                length: training.packing.num_rows() + 1,
                global_batch: batch,
            },
            validation_batches,
            training,
            validation,
            context: settings.context,
            padding: tokenizer.document_end().unwrap_or(0),
            validation_weight: 0.0,
        };
        // The mean of the batches' losses is then that of all tokens that count, whatever batch holds how many.
        let total = validation_batches * batch;
        let rows = (0..total).filter_map(|place| samples.validation_row(place));
        samples.validation_weight = samples.weight(total, samples.validation.counted(rows));
        Ok(samples)
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
}

impl Batches for Samples {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        self.order.check_range("training", &rows)?;
        let batch = self.order.global_batch;
        let all = (0..batch).map(|index| self.order.start(step, index));
        let weight = self.weight(batch, self.training.counted(all));
        let rows = rows.map(|index| Some(self.order.start(step, index)));
        Ok(self.columns(&self.training, rows, weight))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        self.order.check_range("validation", &rows)?;
        let first = index % self.validation_batches * self.order.global_batch;
        let rows = rows.map(|row| self.validation_row(first + row));
        Ok(self.columns(&self.validation, rows, self.validation_weight))
    }

    fn num_validation_batches(&self) -> usize {
        self.validation_batches
    }

    fn fingerprint(&self) -> Option<String> {
        let (training, validation) = (&self.training, &self.validation);
        Some(format!(
            "{}, {}",
            training.fingerprint(),
            validation.fingerprint()
        ))
    }
}

#[cfg(test)]
mod tests;
