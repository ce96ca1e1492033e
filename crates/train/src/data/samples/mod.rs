//! Samples to learn from, such as questions and their answers: several to a row, none cut by another.
//!
//! Read in this order: `encoded` (a sample as tokens, and which of them count), `packing` (which samples share a row),
//! `part` (both, for training or for validation), `columns` (the columns of rows), `held` (the batches of a validation) and
//! [`Samples`] (all batches).

mod columns;
mod encoded;
mod held;
mod packing;
mod part;

use std::ops::Range;

use super::{
    Content, Order, OrderMode, Result, Sample, Settings, Tokenizer,
    dataset::{at_least_one, check_fraction},
};
use crate::batches::{Batches, Rows};
pub(super) use columns::Columns;
pub use encoded::LossOn;
pub(super) use encoded::{Encoded, Given, learns, samples_of, tokens_of};
pub(super) use held::{Held, HeldRows};
pub(super) use packing::Packing;
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
    validation: Held,
    order: Order,
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
        let (name, training) = samples_of(training, "data.path")?;
        let other = validation
            .map(|content| samples_of(content, "data.validation_path"))
            .transpose()?;
        let [own, held] = parts((&name, &training), other.as_ref(), settings)?;
        let validation = Held::new(held, tokenizer, (settings, loss))?;
        let training = Part::new(own, tokenizer, (settings.context, loss), "training")?;
        Ok(Samples {
            order: Order {
                mode: OrderMode::Epoch,
                seed: settings.seed,
                context: 1,
                length: training.packing.num_rows() + 1,
                global_batch: settings.global_batch,
            },
            training,
            validation,
        })
    }

    /// What became of the samples of the training part and of the validation part.
    pub fn packed(&self) -> [Packed; 2] {
        [&self.training, &self.validation.part].map(Part::packed)
    }
}

impl Batches for Samples {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        self.order.check_range("training", &rows)?;
        let batch = self.order.global_batch;
        let all = (0..batch).map(|index| self.order.start(step, index));
        let weight = self.training.weight(batch, self.training.counted(all));
        let rows = rows.map(|index| Some(self.order.start(step, index)));
        Ok(self.training.rows(rows, weight))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        Ok(self.validation.rows(index, rows)?)
    }

    fn num_validation_batches(&self) -> usize {
        self.validation.num_batches()
    }

    fn fingerprint(&self) -> Option<String> {
        let (training, validation) = (&self.training, &self.validation.part);
        Some(format!(
            "{}, {}",
            training.fingerprint(),
            validation.fingerprint()
        ))
    }
}

/// The samples to train on and those to validate on, with the names of their files: without a file for validation, the last
/// samples are kept for it.
///
/// # Errors
/// [`Error::Setting`](super::Error::Setting) for a fraction that leaves a part without data.
pub(super) fn parts<'a>(
    (name, samples): (&'a str, &'a [Sample]),
    validation: Option<&'a (String, Vec<Sample>)>,
    settings: &Settings,
) -> Result<[(&'a str, &'a [Sample]); 2]> {
    if let Some((other, held)) = validation {
        return Ok([(name, samples), (other.as_str(), &held[..])]);
    }
    check_fraction(settings.validation_fraction)?;
    let held = (samples.len() as f64 * settings.validation_fraction).round() as usize;
    // Two samples are enough for both.
    let most = samples.len().saturating_sub(1).max(1);
    let (own, rest) = samples.split_at(samples.len().saturating_sub(held.clamp(1, most)));
    Ok([(name, own), (name, rest)])
}

#[cfg(test)]
mod tests;
