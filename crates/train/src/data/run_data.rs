//! From sources to the batches of a run.

use std::path::PathBuf;
use std::sync::Arc;

use super::{
    ChatTemplate, Content, Corpus, Dataset, Evaluations, LossOn, Mixture, Packed, PairOptions,
    Preferences, Result, Samples, Settings, Source, Tokenizer, TokenizerChoice,
};
use crate::batches::Batches;

/// How the content of sources is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// How text becomes tokens.
    pub tokenizer: TokenizerChoice,
    /// How chats become text; absent: as the tokenizer knows.
    pub chat_template: Option<PathBuf>,
    /// The tokens of samples that count.
    pub loss_on: LossOn,
    /// How pairs are read, if the data is to be pairs.
    pub pairs: Option<PairOptions>,
    /// Sources that are only validated on, each with a name.
    pub evaluations: Vec<(String, Source)>,
}

/// The data of a run.
#[derive(Clone)]
pub struct RunData {
    /// The batches: a [`Dataset`], a [`Mixture`], [`Samples`] or [`Preferences`]; perhaps with [`Evaluations`].
    pub batches: Arc<dyn Batches>,
    /// How text becomes tokens.
    pub tokenizer: Tokenizer,
    /// Tokens to train on and to validate on; of samples those that count.
    pub num_tokens: [usize; 2],
    /// What became of samples for training and for validation.
    pub packed: Option<[Packed; 2]>,
    /// The mixture, if the data is one.
    pub mixture: Option<Arc<Mixture>>,
}

impl RunData {
    /// Reads a source and the one for validation; without that, the last part of the first is kept for it.
    ///
    /// # Errors
    /// Those of [`Source::read`], [`TokenizerChoice::build`], [`ChatTemplate::read`], [`Corpus::new`], [`Dataset::split`],
    /// [`Samples::new`], [`Preferences::new`] and [`Evaluations::new`].
    pub fn new(
        source: &Source,
        validation: Option<&Source>,
        options: &ReadOptions,
        settings: &Settings,
    ) -> Result<RunData> {
        let content = source.read()?;
        let mut tokenizer = options.tokenizer.build(&content)?;
        if let Some(path) = &options.chat_template {
            tokenizer = tokenizer.with_chat(Some(ChatTemplate::read(path)?));
        }
        let other = validation.map(Source::read).transpose()?;
        if let Some(pairs) = options.pairs {
            let data = Preferences::new(content, other, &tokenizer, (settings, pairs))?;
            let packed = data.packed();
            return Ok(RunData {
                batches: Arc::new(data),
                tokenizer,
                num_tokens: packed.map(|part| part.counted),
                packed: Some(packed),
                mixture: None,
            });
        }
        if let Content::Samples { .. } = content {
            let loss = (settings, options.loss_on);
            let samples = Samples::new(content, other, &tokenizer, loss)?;
            let packed = samples.packed();
            let data = RunData {
                batches: Arc::new(samples),
                tokenizer,
                num_tokens: packed.map(|part| part.counted),
                packed: Some(packed),
                mixture: None,
            };
            return data.with_evaluations(options, settings);
        }
        let corpus = Corpus::new(content, &tokenizer)?;
        let data = match other {
            None => Dataset::split(corpus, settings)?,
            Some(other) => Dataset::pair(corpus, Corpus::new(other, &tokenizer)?, settings)?,
        };
        let data = RunData {
            num_tokens: [data.num_training_tokens(), data.num_validation_tokens()],
            batches: Arc::new(data),
            tokenizer,
            packed: None,
            mixture: None,
        };
        data.with_evaluations(options, settings)
    }

    /// Reads several sources and mixes them by weight; without a source for validation, the last part of each is kept for it.
    ///
    /// All have one tokenizer: that of the first token folder among them, which may be left out of the options.
    ///
    /// # Errors
    /// As [`RunData::new`] and [`Mixture::new`]; [`Error::Setting`](super::Error::Setting) for samples, and for a tokenizer that depends on the text.
    pub fn mixture(
        sources: &[(Source, f64)],
        validation: Option<&Source>,
        options: &ReadOptions,
        settings: &Settings,
    ) -> Result<RunData> {
        let weights: Vec<f64> = sources.iter().map(|(_, weight)| *weight).collect();
        Mixture::check_weights(&weights)?;
        let contents = sources.iter().map(|(source, _)| source.read());
        let contents = contents.collect::<Result<Vec<Content>>>()?;
        let folder = contents
            .iter()
            .find(|content| matches!(content, Content::Folder(_)));
        let tokenizer = match folder {
            Some(folder) => options.tokenizer.build(folder)?,
            None => options.tokenizer.read()?,
        };
        let corpora = contents.into_iter().zip(weights);
        let corpora = corpora
            .map(|(content, weight)| Ok((Corpus::new(content, &tokenizer)?, weight)))
            .collect::<Result<Vec<_>>>()?;
        let validation = validation
            .map(|source| Corpus::new(source.read()?, &tokenizer))
            .transpose()?;
        let mixture = Arc::new(Mixture::new(corpora, validation, settings)?);
        let data = RunData {
            batches: mixture.clone(),
            tokenizer,
            num_tokens: mixture.num_tokens(),
            packed: None,
            mixture: Some(mixture),
        };
        data.with_evaluations(options, settings)
    }

    fn with_evaluations(mut self, options: &ReadOptions, settings: &Settings) -> Result<RunData> {
        if options.evaluations.is_empty() {
            return Ok(self);
        }
        let contents = options.evaluations.iter();
        let contents = contents
            .map(|(name, source)| Ok((name.clone(), source.read()?)))
            .collect::<Result<Vec<_>>>()?;
        let loss = self.packed.map(|_| options.loss_on);
        let how = (settings, loss);
        let all = Evaluations::new(self.batches, contents, &self.tokenizer, how)?;
        self.batches = Arc::new(all);
        Ok(self)
    }
}
