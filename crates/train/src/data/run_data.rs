//! From sources to the batches of a run.

use std::path::PathBuf;
use std::sync::Arc;

use super::{
    ChatTemplate, Content, Corpus, Dataset, LossOn, Packed, Result, Samples, Settings, Source,
    Tokenizer, TokenizerChoice,
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
}

/// The data of a run.
#[derive(Clone)]
pub struct RunData {
    /// The batches: a [`Dataset`], or [`Samples`].
    pub batches: Arc<dyn Batches>,
    /// How text becomes tokens.
    pub tokenizer: Tokenizer,
    /// Tokens to train on and to validate on; of samples those that count.
    pub num_tokens: [usize; 2],
    /// What became of samples for training and for validation.
    pub packed: Option<[Packed; 2]>,
}

impl RunData {
    /// Reads a source and the one for validation; without that, the last part of the first is kept for it.
    ///
    /// # Errors
    /// Those of [`Source::read`], [`TokenizerChoice::build`], [`ChatTemplate::read`], [`Corpus::new`], [`Dataset::split`] and
    /// [`Samples::new`].
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
        if let Content::Samples { .. } = content {
            let loss = (settings, options.loss_on);
            let samples = Samples::new(content, other, &tokenizer, loss)?;
            let packed = samples.packed();
            return Ok(RunData {
                batches: Arc::new(samples),
                tokenizer,
                num_tokens: packed.map(|part| part.counted),
                packed: Some(packed),
            });
        }
        let corpus = Corpus::new(content, &tokenizer)?;
        let data = match other {
            None => Dataset::split(corpus, settings)?,
            Some(other) => Dataset::pair(corpus, Corpus::new(other, &tokenizer)?, settings)?,
        };
        Ok(RunData {
            num_tokens: [data.num_training_tokens(), data.num_validation_tokens()],
            batches: Arc::new(data),
            tokenizer,
            packed: None,
        })
    }
}
