//! Text that the model writes while it is trained, and at the end.

use super::{Run, Stop};
use crate::{
    Error, Result,
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, text},
    metrics::Stepped,
    trainer::Trainer,
};
use serde::{Deserialize, Serialize};

/// A line of `samples.jsonl`: a text that the model has written after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// The step, counted from 1.
    pub step: u64,
    /// The prompt and what follows it.
    pub text: String,
}

impl Stepped for SampleRecord {
    const IN_EVERY_STEP: bool = false;

    fn step(&self) -> u64 {
        self.step
    }
}

/// What the model of a run continues: nothing for one that reads no text.
#[derive(Clone, Debug)]
pub(super) struct SampleText {
    tokenizer: Tokenizer,
    prompt: String,
    tokens: usize,
}

impl SampleText {
    /// As the configuration says.
    ///
    /// # Errors
    /// [`Error::Setting`] for a prompt of which the tokenizer makes no token; that of the tokenizer.
    pub(super) fn of(run: &Run) -> Result<Option<SampleText>> {
        let training = &run.config.training;
        let tokenizer = run.tokenizer.as_ref();
        let is_wanted = run.config.model.text().is_some() && training.sample_tokens > 0;
        let Some(tokenizer) = tokenizer.filter(|_| is_wanted) else {
            return Ok(None);
        };
        let prompt = match training.sample_prompt.is_empty() {
            true => first_prompt(tokenizer),
            false => training.sample_prompt.clone(),
        };
        if tokenizer.encode(&prompt)?.is_empty() {
            let found = format!("{prompt:?}, of which the tokenizer makes no token");
            let needed = "a text of at least one";
            return Err(Error::setting("training.sample_prompt", found, needed));
        }
        Ok(Some(SampleText {
            tokenizer: tokenizer.clone(),
            prompt,
            tokens: training.sample_tokens,
        }))
    }

    /// Writes with the weights of the steps done so far; nothing if a rank is asked to stop meanwhile. Collective.
    ///
    /// # Errors
    /// Those of [`Generator::step`].
    pub(super) fn write(
        &self,
        trainer: &Trainer,
        run: &Run,
        stop: &Stop,
    ) -> Result<Option<SampleRecord>> {
        let (pipeline, tokenizer) = (trainer.pipeline(), &self.tokenizer);
        let options = GeneratorOptions::default();
        let mut generator = Generator::new(pipeline, text(&run.config)?, tokenizer, options)?;
        generator.add(Request {
            prompt: tokenizer.encode(&self.prompt)?,
            tokens: self.tokens,
            end: tokenizer.document_end(),
            ..Request::default()
        })?;
        let mut text = self.prompt.clone();
        while !generator.is_idle() {
            if trainer.context().world().everyone().any(stop.asked())? {
                return Ok(None);
            }
            for token in generator.step()? {
                text += &token.text;
            }
        }
        let step = trainer.next_step();
        Ok(Some(SampleRecord { step, text }))
    }
}

/// A prompt that the tokenizer can encode: a line end if it has one.
pub fn first_prompt(tokenizer: &Tokenizer) -> String {
    let is_known = |text: &&str| {
        tokenizer
            .encode(text)
            .is_ok_and(|tokens| !tokens.is_empty())
    };
    let known = ["\n", " ", "0"].into_iter().find(is_known);
    known.map_or_else(|| tokenizer.decode(&[0]), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tokenizer_knows_its_prompt() {
        assert_eq!(first_prompt(&Tokenizer::bytes()), "\n");
        assert_eq!(first_prompt(&Tokenizer::ids(9)), "0");
        assert_eq!(first_prompt(&Tokenizer::characters(&["ba".into()])), "a");
    }
}
