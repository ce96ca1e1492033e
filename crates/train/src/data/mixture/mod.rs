//! Several sources of tokens, mixed by weight.
//!
//! Read in this order: `quotas` (which source gives which row) and [`Mixture`] (the batches).

mod quotas;

use std::ops::Range;

use super::dataset::{Part, at_least_one, cut, same_vocabulary};
use super::evaluations::short_names;
use super::held::Held;
use super::order::check_range;
use super::{Batch, Corpus, Order, OrderMode, Result, Settings, random};
use crate::batches::{Batches, Rows, ValidationSet, locate};
use quotas::Quotas;

/// Separates the orders of the sources from each other and from those of a single one.
const SOURCE_KEY: u64 = 3;

/// Tokens of several sources, each with a weight: its share of the rows of a run.
///
/// The source of a row follows from the row's number in the run alone. Each source is cut into windows, and its rows visit each
/// of them once before any of them again, in an order of the epoch. So rows do not depend on ranks, and a run that is resumed
/// within an epoch of a source goes on where it was.
///
/// A validation has a set of batches for each source, of its validation part. Their number follows its share, and is at least
/// one; the loss of the validation is the mean over the sources by their shares.
#[derive(Debug, Clone)]
pub struct Mixture {
    sources: Vec<MixtureSource>,
    quotas: Quotas,
    validation: Vec<Held>,
    context: usize,
    global_batch: usize,
}

#[derive(Debug, Clone)]
struct MixtureSource {
    training: Part,
    order: Order,
}

/// What a mixture has of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureShare {
    /// Where its tokens come from.
    pub name: String,
    /// Its share of the rows.
    pub share: f64,
    /// Its tokens to train on.
    pub num_tokens: usize,
    /// How often a run visits its windows, on average.
    pub epochs: f64,
}

impl Mixture {
    /// Mixes corpora by their weights. Without a corpus for validation, the last part of each is kept for it.
    ///
    /// # Errors
    /// [`Error::Bound`](super::Error::Bound) for weights that cannot be; otherwise as [`Dataset::split`](super::Dataset::split) and
    /// [`Dataset::pair`](super::Dataset::pair).
    pub fn new(
        corpora: Vec<(Corpus, f64)>,
        validation: Option<Corpus>,
        settings: &Settings,
    ) -> Result<Mixture> {
        let context = settings.context;
        at_least_one("context", context)?;
        at_least_one("global batch", settings.global_batch)?;
        at_least_one("validation batches", settings.validation_batches)?;
        let weights: Vec<f64> = corpora.iter().map(|(_, weight)| *weight).collect();
        let quotas = Quotas::new(&weights)?;
        let first = corpora[0].0.vocabulary_size();
        let others = corpora.iter().map(|(corpus, _)| corpus).chain(&validation);
        for corpus in others {
            same_vocabulary("vocabulary of a mixture", first, corpus)?;
        }
        let (mut sources, mut held) = (Vec::new(), Vec::new());
        for (index, (corpus, _)) in corpora.into_iter().enumerate() {
            let training = match validation {
                Some(_) => Part::whole(corpus),
                None => {
                    let [training, own] = cut(corpus, settings.validation_fraction)?;
                    own.check_length(training.len(), context)?;
                    let share = quotas.shares()[index];
                    let batches = (settings.validation_batches as f64 * share).round() as usize;
                    held.push(Held::new(own, batches.max(1), settings)?);
                    training
                }
            };
            training.check_length(training.len(), context)?;
            let order = Order {
                mode: OrderMode::Epoch,
                seed: random::word(&[settings.seed, SOURCE_KEY, index as u64]),
                context,
                length: training.len(),
                global_batch: 1,
            };
            sources.push(MixtureSource { training, order });
        }
        if let Some(corpus) = validation {
            held.push(Held::whole(corpus, settings)?);
        }
        Ok(Mixture {
            sources,
            quotas,
            validation: held,
            context,
            global_batch: settings.global_batch,
        })
    }

    /// That a mixture may have these weights.
    ///
    /// # Errors
    /// [`Error::Bound`](super::Error::Bound).
    pub fn check_weights(weights: &[f64]) -> Result<()> {
        Quotas::new(weights).map(drop)
    }

    /// What a run of `steps` steps has of each source.
    pub fn shares(&self, steps: u64) -> Vec<MixtureShare> {
        let rows = self
            .quotas
            .before(u128::from(steps) * self.global_batch as u128);
        let shares = self.quotas.shares().iter();
        let sources = self.sources.iter().zip(shares).zip(rows);
        let share = |((source, share), rows): ((&MixtureSource, &f64), u128)| MixtureShare {
            name: source.training.name().to_owned(),
            share: *share,
            num_tokens: source.training.len(),
            epochs: rows as f64 / source.order.num_windows() as f64,
        };
        sources.map(share).collect()
    }

    /// Tokens to train on and to validate on.
    pub fn num_tokens(&self) -> [usize; 2] {
        let training = self.sources.iter().map(|source| source.training.len());
        [
            training.sum(),
            self.validation.iter().map(|held| held.part().len()).sum(),
        ]
    }

    /// The sequences at `range` of the global batch of `step`: the same, whatever the pieces in which they are requested.
    ///
    /// # Errors
    /// As [`Dataset::batch`](super::Dataset::batch).
    pub fn batch(&self, step: u64, range: Range<usize>) -> Result<Batch> {
        check_range("batch", &range, self.global_batch)?;
        let mut batch = Batch::of(range.len(), self.context);
        let first = u128::from(step) * self.global_batch as u128;
        for row in range {
            let (source, place) = self.quotas.locate(first + row as u128);
            let MixtureSource { training, order } = &self.sources[source];
            training.extend_batch(order.start_of(place), self.context, &mut batch)?;
        }
        Ok(batch)
    }

    /// The sequences at `range` of validation batch `batch_index`: the same in every validation. The batches of the sources
    /// follow one another.
    ///
    /// # Errors
    /// As [`batch`](Mixture::batch).
    pub fn validation_batch(&self, batch_index: usize, range: Range<usize>) -> Result<Batch> {
        let counts: Vec<usize> = self.validation.iter().map(Held::num_batches).collect();
        let (source, index) = locate(batch_index, &counts);
        self.validation[source].batch(index, range)
    }
}

impl Batches for Mixture {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        Ok(self.batch(step, rows)?.into_rows(self.context))
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        Ok(self.validation_batch(index, rows)?.into_rows(self.context))
    }

    fn num_validation_batches(&self) -> usize {
        self.validation.iter().map(Held::num_batches).sum()
    }

    fn validation_sets(&self) -> Vec<ValidationSet> {
        let names: Vec<&str> = self
            .validation
            .iter()
            .map(|held| held.part().name())
            .collect();
        // One set alone is the whole validation, whatever has which share of the training.
        let shares = match &self.validation[..] {
            [_] => &[1.0],
            _ => self.quotas.shares(),
        };
        let sets = self.validation.iter().zip(short_names(&names)).zip(shares);
        let sets = sets.map(|((held, name), weight)| (name, held.num_batches(), *weight));
        ValidationSet::in_turn(0, sets)
    }

    // Shares decide which row is whose, so they belong to the data.
    fn fingerprint(&self) -> Option<String> {
        let shares = self.quotas.shares().iter();
        let training = self.sources.iter().map(|source| &source.training);
        let sources = shares
            .zip(training)
            .map(|(share, part)| format!("{share} of {}", part.fingerprint()));
        let validation = self.validation.iter().map(|held| held.part().fingerprint());
        let all: Vec<String> = sources.chain(validation).collect();
        Some(format!("mixture of {}", all.join(", ")))
    }
}

#[cfg(test)]
mod tests;
