//! More data to validate on, whose losses are only watched.

use std::{ops::Range, path::Path, sync::Arc};

use super::{Content, Corpus, Error, LossOn, Result, Settings, Tokenizer, held, samples};
use crate::batches::{Batches, Rows, ValidationSet, locate};

const SETTING: &str = "data.evaluations";

/// The batches of a run with named sets behind those of its own validation. They change neither the rows of a step nor the loss of
/// a validation; each has a loss of its own in the records.
#[derive(Clone)]
pub struct Evaluations {
    batches: Arc<dyn Batches>,
    sets: Vec<(String, HeldOut)>,
}

#[derive(Clone)]
enum HeldOut {
    Tokens(held::Held),
    Samples(samples::Held),
}

impl Evaluations {
    /// Adds a set for each name and content, which must be of the kind of the training data: text and tokens, or samples.
    ///
    /// # Errors
    /// [`Error::Setting`] for a name that another set has, and for content of another kind or vocabulary; [`Error::TooShort`]
    /// for text without a sequence; otherwise as [`Corpus::new`] and [`Samples::new`](super::Samples::new).
    pub fn new(
        batches: Arc<dyn Batches>,
        contents: Vec<(String, Content)>,
        tokenizer: &Tokenizer,
        (settings, loss): (&Settings, Option<LossOn>),
    ) -> Result<Evaluations> {
        let mut names: Vec<String> = batches
            .validation_sets()
            .into_iter()
            .map(|set| set.name)
            .collect();
        let mut sets = Vec::with_capacity(contents.len());
        for (name, content) in contents {
            if name.is_empty() || names.contains(&name) {
                return Err(Error::Setting {
                    setting: "name in data.evaluations",
                    found: format!("{name:?} for {}", content.name()),
                    needed: "one that no other set has",
                });
            }
            let held = match loss {
                Some(loss) => {
                    let (path, samples) = samples::samples_of(content, SETTING)?;
                    let held = samples::Held::new((&path, &samples), tokenizer, (settings, loss))?;
                    HeldOut::Samples(held)
                }
                None => {
                    let corpus = Corpus::new(content, tokenizer)?;
                    HeldOut::Tokens(held::Held::whole(corpus, settings)?)
                }
            };
            names.push(name.clone());
            sets.push((name, held));
        }
        Ok(Evaluations { batches, sets })
    }
}

impl Batches for Evaluations {
    fn training(&self, step: u64, rows: Range<usize>) -> crate::Result<Rows> {
        self.batches.training(step, rows)
    }

    fn validation(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        let mut counts = vec![self.batches.num_validation_batches()];
        counts.extend(self.sets.iter().map(|(_, held)| held.num_batches()));
        if self.sets.is_empty() {
            return self.batches.validation(index, rows);
        }
        match locate(index, &counts) {
            (0, index) => self.batches.validation(index, rows),
            (set, index) => self.sets[set - 1].1.rows(index, rows),
        }
    }

    fn num_validation_batches(&self) -> usize {
        let sets = self.sets.iter().map(|(_, held)| held.num_batches());
        self.batches.num_validation_batches() + sets.sum::<usize>()
    }

    fn validation_sets(&self) -> Vec<ValidationSet> {
        let mut sets = self.batches.validation_sets();
        let watched = self.sets.iter();
        let watched = watched.map(|(name, held)| (name.clone(), held.num_batches(), 0.0));
        let first = self.batches.num_validation_batches();
        sets.extend(ValidationSet::in_turn(first, watched));
        sets
    }

    // What is only watched does not belong to what a run learns.
    fn fingerprint(&self) -> Option<String> {
        self.batches.fingerprint()
    }
}

impl HeldOut {
    fn num_batches(&self) -> usize {
        match self {
            HeldOut::Tokens(held) => held.num_batches(),
            HeldOut::Samples(held) => held.num_batches(),
        }
    }

    fn rows(&self, index: usize, rows: Range<usize>) -> crate::Result<Rows> {
        Ok(match self {
            HeldOut::Tokens(held) => held.rows(index, rows)?,
            HeldOut::Samples(held) => held.rows(index, rows)?,
        })
    }
}

/// A short name of data for each place that it comes from: the last part of a path or, where two share it, all of it.
pub(super) fn short_names(names: &[&str]) -> Vec<String> {
    let last = |name: &str| {
        let file = Path::new(name).file_name();
        file.map_or_else(
            || name.to_owned(),
            |file| file.to_string_lossy().into_owned(),
        )
    };
    let short: Vec<String> = names.iter().map(|name| last(name)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let all = short.iter().zip(names);
    all.map(|(short, name)| match is_alone(short) {
        true => short.clone(),
        false => (*name).to_owned(),
    })
    .collect()
}
