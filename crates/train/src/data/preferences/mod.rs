//! Pairs of answers, of which one was preferred to the other: the batches of direct preference optimisation.
//!
//! Read in this order: `encoded` (pairs as tokens), `part` (both sequences of a pair in one row, for training or for
//! validation), `reference` (what another model makes of them) and [`Preferences`] (all batches).

mod encoded;
mod part;
mod reference;

use std::{ops::Range, sync::Arc};

use super::{
    Content, Error, Order, OrderMode, Packed, Result, Settings, Tokenizer, dataset::at_least_one,
    samples,
};
use crate::batches::{Batches, Rows};
use part::Part;

/// How pairs are read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairOptions {
    /// The probability that the rejected answer is the better one.
    pub label_smoothing: f64,
}

/// Pairs of answers, their training and validation parts, the order, and the log-probabilities of the reference model.
///
/// # Shapes
/// A row holds `context` tokens: both sequences of one or more pairs, and behind them padding, so that no cut of a batch parts a
/// pair. Its columns are those of [`Samples`](super::Samples); `sequences`, the number in its row of the sequence that a token
/// belongs to, even for a chosen answer and odd for the rejected one of the same pair; and for each pair of a row `labels`, the
/// probabilities that each answer is the better one, and `reference`, the log-probabilities of both by the reference model.
/// `loss_weight` is rows of the batch over pairs in it: times it, a sum over pairs divided by rows is their mean.
#[derive(Debug, Clone)]
pub struct Preferences {
    training: Part,
    validation: Part,
    held: samples::HeldRows,
    order: Order,
    // Of both sequences of each pair, for training and then for validation.
    reference: Option<Arc<[f64]>>,
}

impl Preferences {
    /// Tokenises pairs and lays them into rows. Without pairs of its own for validation, the last ones are kept for it.
    ///
    /// # Errors
    /// As [`Samples::new`](super::Samples::new); [`Error::Samples`] for a sample that is no pair.
    pub fn new(
        training: Content,
        validation: Option<Content>,
        tokenizer: &Tokenizer,
        (settings, options): (&Settings, PairOptions),
    ) -> Result<Preferences> {
        at_least_one("context", settings.context)?;
        at_least_one("global batch", settings.global_batch)?;
        at_least_one("validation batches", settings.validation_batches)?;
        let (name, training) = samples::samples_of(training, "data.path")?;
        let other = validation
            .map(|content| samples::samples_of(content, "data.validation_path"))
            .transpose()?;
        let [own, held] = samples::parts((&name, &training), other.as_ref(), settings)?;
        let part = |of, what| Part::new(of, tokenizer, (settings.context, options), what);
        let (mut training, mut validation) = (part(own, "training")?, part(held, "validation")?);
        // One shape for all rows.
        let most = training.most_pairs.max(validation.most_pairs);
        (training.most_pairs, validation.most_pairs) = (most, most);
        Ok(Preferences {
            held: samples::HeldRows::new(validation.num_rows(), settings),
            order: Order {
                mode: OrderMode::Epoch,
                seed: settings.seed,
                context: 1,
                length: training.num_rows() + 1,
                global_batch: settings.global_batch,
            },
            training,
            validation,
            reference: None,
        })
    }

    /// What became of the pairs of the training part and of the validation part; their numbers of samples are those of pairs.
    pub fn packed(&self) -> [Packed; 2] {
        [&self.training, &self.validation].map(Part::packed)
    }

    // The numbers of the sequences of a part.
    fn known(&self, is_training: bool) -> Result<&[f64]> {
        let between = 2 * self.training.num_pairs();
        let missing = || {
            Error::Samples {
            name: self.training.name.clone(),
            reason: "found no log-probabilities of the reference model, needs Preferences::with_reference".into(),
        }
        };
        let known = self.reference.as_deref().ok_or_else(missing)?;
        Ok(match is_training {
            true => &known[..between],
            false => &known[between..],
        })
    }
}

impl Batches for Preferences {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        self.order.check_range("training", &rows)?;
        let (batch, known) = (self.order.global_batch, self.known(true)?);
        let pairs = (0..batch).map(|index| self.training.pairs_in(self.order.start(step, index)));
        let weight = batch as f64 / pairs.sum::<usize>() as f64;
        let rows = rows.map(|index| Some(self.order.start(step, index)));
        Ok(self.training.rows(rows, weight, known))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        let known = self.known(false)?;
        let all = (0..self.held.total()).filter_map(|place| self.held.row(place));
        let pairs: usize = all.map(|row| self.validation.pairs_in(row)).sum();
        let weight = self.held.total() as f64 / pairs as f64;
        let rows = self.held.rows(index, rows)?;
        Ok(self.validation.rows(rows, weight, known))
    }

    fn num_validation_batches(&self) -> usize {
        self.held.num_batches()
    }

    fn fingerprint(&self) -> Option<String> {
        let parts = [&self.training, &self.validation].map(Part::fingerprint);
        let reference = self.reference.as_deref().map(reference::checksum);
        let reference = reference.map(|sum| format!(", reference {sum:08x}"));
        Some(parts.join(", ") + &reference.unwrap_or_default())
    }

    fn preferences(&self) -> Option<&Preferences> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
