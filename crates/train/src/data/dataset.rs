//! The batches of a run.

use std::ops::Range;
use std::sync::Arc;

use super::{
    Corpus, Error, Order, OrderMode, Result, Source, Tokenizer, TokenizerChoice, held::Held,
};

/// How a corpus is cut, and the order in which it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Tokens of a sequence.
    pub context: usize,
    /// Fraction of the tokens, at the end, that is kept for validation: above 0, below 1.
    pub validation_fraction: f64,
    /// How training sequences are chosen.
    pub order: OrderMode,
    /// The seed of the order.
    pub seed: u64,
    /// Sequences per step, over all ranks and micro-batches.
    pub global_batch: usize,
    /// Batches per validation, spread evenly over the validation part.
    pub validation_batches: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            context: 128,
            validation_fraction: 0.1,
            order: OrderMode::default(),
            seed: 0,
            global_batch: 8,
            validation_batches: 8,
        }
    }
}

/// A piece of a global batch.
///
/// # Shapes
/// `inputs` and `targets`: sequences x context, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The tokens that the model reads.
    pub inputs: Vec<u32>,
    /// For each input token, the token that follows it.
    pub targets: Vec<u32>,
}

/// Tokens, their training and validation parts, and the order.
///
/// Cheap to clone: clones share the tokens, so the ranks of one process hold them once.
#[derive(Debug, Clone)]
pub struct Dataset {
    training: Part,
    validation: Held,
    order: Order,
}

/// A run of the tokens of a corpus, for training or for validation.
#[derive(Debug, Clone)]
pub(super) struct Part {
    corpus: Arc<Corpus>,
    range: Range<usize>,
}

impl Dataset {
    /// Reads `source` and makes the tokenizer that `choice` requests.
    ///
    /// # Errors
    /// Those of [`Source::read`], [`TokenizerChoice::build`], [`Corpus::new`] and [`Dataset::split`].
    pub fn open(
        source: &Source,
        choice: &TokenizerChoice,
        settings: &Settings,
    ) -> Result<(Dataset, Tokenizer)> {
        let content = source.read()?;
        let tokenizer = choice.build(&content)?;
        let corpus = Corpus::new(content, &tokenizer)?;
        Ok((Dataset::split(corpus, settings)?, tokenizer))
    }

    /// Cuts `corpus` by position: the first part trains, the rest validates.
    ///
    /// # Errors
    /// [`Error::Setting`] for a count of 0 or a fraction that cannot be; [`Error::TooShort`] if a part cannot hold one
    /// sequence.
    pub fn split(corpus: Corpus, settings: &Settings) -> Result<Dataset> {
        let [training, validation] = cut(corpus, settings.validation_fraction)?;
        Dataset::new(training, validation, settings)
    }

    /// Takes two corpora, such as `train.bin` and `val.bin`; ignores the validation fraction.
    ///
    /// # Errors
    /// As [`Dataset::split`], and [`Error::Setting`] when their vocabularies differ.
    pub fn pair(training: Corpus, validation: Corpus, settings: &Settings) -> Result<Dataset> {
        let setting = "vocabulary of training and validation";
        same_vocabulary(setting, training.vocabulary_size(), &validation)?;
        Dataset::new(Part::whole(training), Part::whole(validation), settings)
    }

    fn new(training: Part, validation: Part, settings: &Settings) -> Result<Dataset> {
        let &Settings {
            context,
            order: mode,
            seed,
            global_batch,
            ..
        } = settings;
        let validation = Held::new(validation, settings.validation_batches, settings)?;
        check_lengths(&training, validation.part(), context)?;
        let order = Order {
            mode,
            seed,
            context,
            length: training.range.len(),
            global_batch,
        };
        Ok(Dataset {
            training,
            validation,
            order,
        })
    }

    /// The sequences at `range` of the global batch of `step`: the same, whatever the pieces in which they are
    /// requested.
    ///
    /// # Errors
    /// [`Error::BatchRange`] if `range` exceeds the global batch; [`Error::Shrunk`] and [`Error::Io`] from a token file,
    /// and [`Error::TokenRange`] from a large one.
    pub fn batch(&self, step: u64, range: Range<usize>) -> Result<Batch> {
        self.order.check_range("batch", &range)?;
        self.training.batch(
            self.order.context,
            range.map(|index| self.order.start(step, index)),
        )
    }

    /// The sequences at `range` of validation batch `batch_index`: the same in every validation.
    ///
    /// Batches beyond the configured number start again from the first.
    ///
    /// # Errors
    /// As [`Dataset::batch`].
    pub fn validation_batch(&self, batch_index: usize, range: Range<usize>) -> Result<Batch> {
        self.validation.batch(batch_index, range)
    }

    /// Tokens of the training part.
    pub fn num_training_tokens(&self) -> usize {
        self.training.range.len()
    }

    /// Tokens of the validation part.
    pub fn num_validation_tokens(&self) -> usize {
        self.validation.part().len()
    }

    /// Batches per validation.
    pub fn validation_batches(&self) -> usize {
        self.validation.num_batches()
    }

    /// The number of tokens of each part and the checksum of their ids.
    ///
    /// Of a file of more than 2^27 tokens the checksum covers its number of tokens and 2^8 stretches of 2^16, evenly spread.
    pub fn fingerprint(&self) -> String {
        let [training, validation] =
            [&self.training, self.validation.part()].map(Part::fingerprint);
        format!("{training}, {validation}")
    }

    /// All tokens are below this.
    pub fn vocabulary_size(&self) -> usize {
        self.training.corpus.vocabulary_size()
    }

    /// The order of the training part.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Number of passes over the training tokens after `steps` steps; in random order, on average.
    pub fn epochs(&self, steps: u64) -> f64 {
        steps as f64 * self.order.global_batch as f64 / self.order.num_windows() as f64
    }
}

impl Batch {
    /// An empty batch with room for sequences.
    pub(super) fn of(sequences: usize, context: usize) -> Batch {
        let room = || Vec::with_capacity(sequences * context);
        Batch {
            inputs: room(),
            targets: room(),
        }
    }
}

impl Part {
    pub(super) fn whole(corpus: Corpus) -> Part {
        Part {
            range: 0..corpus.len(),
            corpus: Arc::new(corpus),
        }
    }

    /// Where its tokens come from.
    pub(super) fn name(&self) -> &str {
        self.corpus.name()
    }

    /// Its number of tokens.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// Its number of tokens and the checksum of its corpus.
    pub(super) fn fingerprint(&self) -> String {
        let (tokens, checksum) = (self.range.len(), self.corpus.checksum());
        format!("{tokens} tokens of {checksum:08x}")
    }

    /// That it holds a sequence, beside `training` tokens of the same corpus that are for training.
    pub(super) fn check_length(&self, training: usize, context: usize) -> Result<()> {
        let needed = context.saturating_add(1);
        if self.len() >= needed {
            return Ok(());
        }
        let found = self.corpus.len();
        Err(Error::TooShort {
            name: self.name().to_owned(),
            found,
            training,
            validation: found - training,
            needed,
        })
    }

    /// The sequences that begin at `starts`.
    pub(super) fn batch(
        &self,
        context: usize,
        starts: impl ExactSizeIterator<Item = usize>,
    ) -> Result<Batch> {
        let mut batch = Batch::of(starts.len(), context);
        for start in starts {
            self.extend_batch(start, context, &mut batch)?;
        }
        Ok(batch)
    }

    /// Appends the sequence that begins at `start`.
    pub(super) fn extend_batch(
        &self,
        start: usize,
        context: usize,
        batch: &mut Batch,
    ) -> Result<()> {
        let first = self.range.start + start;
        let before = batch.inputs.len();
        self.corpus
            .extend_into(first..first + context + 1, &mut batch.inputs)?;
        // Targets are the inputs, one token on.
        batch.targets.extend_from_slice(&batch.inputs[before + 1..]);
        batch.inputs.pop();
        Ok(())
    }
}

/// Cuts a corpus by position: the first part trains, the rest validates.
pub(super) fn cut(corpus: Corpus, validation_fraction: f64) -> Result<[Part; 2]> {
    check_fraction(validation_fraction)?;
    let cut = corpus.len() - (corpus.len() as f64 * validation_fraction).round() as usize;
    let ranges = [0..cut, cut..corpus.len()];
    let corpus = Arc::new(corpus);
    Ok(ranges.map(|range| Part {
        corpus: corpus.clone(),
        range,
    }))
}

/// That a corpus has tokens of a vocabulary of this size.
pub(super) fn same_vocabulary(setting: &'static str, needed: usize, corpus: &Corpus) -> Result<()> {
    match corpus.vocabulary_size() {
        found if found == needed => Ok(()),
        found => Err(Error::Setting {
            setting,
            found: format!("{needed} and {found}"),
            needed: "one tokenizer for both",
        }),
    }
}

fn check_lengths(training: &Part, validation: &Part, context: usize) -> Result<()> {
    let (needed, counts) = (
        context.saturating_add(1),
        (training.range.len(), validation.range.len()),
    );
    if counts.0.min(counts.1) >= needed {
        return Ok(());
    }
    // With two files, names the short one; with one file there is only one name.
    let short = if counts.0 < needed {
        training
    } else {
        validation
    };
    let name = short.corpus.name().to_owned();
    Err(Error::TooShort {
        name,
        found: counts.0 + counts.1,
        training: counts.0,
        validation: counts.1,
        needed,
    })
}

pub(super) fn check_fraction(fraction: f64) -> Result<()> {
    match fraction > 0.0 && fraction < 1.0 {
        true => Ok(()),
        false => Err(Error::Setting {
            setting: "validation fraction",
            found: fraction.to_string(),
            needed: "a number above 0 and below 1",
        }),
    }
}

pub(super) fn at_least_one(setting: &'static str, found: usize) -> Result<()> {
    match found {
        0 => Err(Error::Setting {
            setting,
            found: found.to_string(),
            needed: "at least 1",
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
