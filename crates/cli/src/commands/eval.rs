//! `fascicle eval`: how well a checkpoint's model predicts texts and answers.

mod inputs;
mod progress;
mod results;
#[cfg(test)]
mod tests;

use super::{checkpoint, on_ranks::OnRanks};
use crate::{
    Registry, device,
    failure::{Failure, Outcome},
    files::check_output,
    numbers::{MOST_SIZE, count},
    output,
};
use clap::{ArgGroup, Args};
use inputs::{Inputs, Manner, Work};
use progress::ItemBar;
use results::{Evaluation, Found, samples};
use std::{path::PathBuf, time::Instant};
use train::{
    data::Tokenizer,
    eval::{self, MOST_BATCH, Scorer, prefix_token, rolling_windows},
    generate::{described, load, relay, text},
};

/// Arguments of `fascicle eval`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("inputs").args(["text", "tasks"]).required(true).multiple(true))]
pub(crate) struct Eval {
    /// A checkpoint, or a run directory, whose newest checkpoint is used
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Texts whose perplexity is measured: each file is a document, or each line of a .jsonl file, under the key `text`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    text: Vec<PathBuf>,
    /// Questions of multiple choice, a JSON object per line with `context`, `choices` and `answer`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    tasks: Vec<PathBuf>,
    /// Tokens that each window over a text predicts, after the first window; defaults to the model's context
    #[arg(long, value_name = "N", value_parser = count::<MOST_SIZE>)]
    stride: Option<usize>,
    /// The token before the first one of a text; defaults to the tokenizer's end of text, otherwise to a line end
    #[arg(long, value_name = "ID")]
    prefix: Option<u32>,
    /// Text between a context and each choice
    #[arg(long, value_name = "TEXT", default_value = " ")]
    delimiter: String,
    /// Sequences that the model runs at a time; on the CPU, no number depends on it
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count::<MOST_BATCH>)]
    batch: usize,
    #[command(flatten)]
    ranks: OnRanks,
    /// Write the log-likelihoods of each question to a file, a JSON object per line
    #[arg(long, value_name = "FILE", requires = "tasks")]
    samples: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

impl Eval {
    /// Prints the results to stdout.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let (evaluation, samples) = self.evaluated(registry)?;
        if let Some(path) = self.samples.as_ref().filter(|_| output::speaks()) {
            std::fs::write(path, samples)
                .map_err(|error| Failure::run(format!("--samples {}: {error}", path.display())))?;
        }
        output::note(&evaluation.speed());
        match self.json {
            true => output::json(&evaluation),
            false => output::result(&evaluation.table()),
        }
    }

    // The results, and those of each question as lines of JSON.
    fn evaluated(&self, registry: &Registry) -> Outcome<(Evaluation, String)> {
        let driver = device::preferred(&registry.drivers)?;
        let reader = checkpoint::open(&self.checkpoint)?;
        let path = reader.path().to_owned();
        let (mut config, tokenizer) =
            described(&reader, &registry.families).map_err(Failure::run)?;
        let form = text(&config).map_err(Failure::run)?;
        let manner = self.manner(&tokenizer, form)?;
        let inputs = Inputs::read(&self.text, &self.tasks, &manner, (&tokenizer, form))?;
        if let Some(path) = &self.samples {
            check_output("--samples", path)?;
        }
        let (team, stored_as) = (self.ranks.team(&mut config)?, self.ranks.frozen_weights);
        let grid = config.parallel.grid.to_string();
        let (begun, opened) = (Instant::now(), path.clone());
        let (work, batch) = (inputs.work().clone(), self.batch);
        let (prefix, stride) = (manner.prefix, manner.stride);
        let ends = team.run(driver, move |world, device| {
            let reader = train::checkpoint::Reader::open(&opened)?;
            train::trainer::verify(world, &reader)?;
            let pipeline = load(world, device, &config, &reader, stored_as)?;
            let scorer = Scorer::new(&pipeline, form, batch)?;
            // Every rank has to score the same: the files of another host may differ.
            let work = relay(world, 0, || Ok(work.clone()))?;
            score(&scorer, &work, (prefix, stride), world.rank() == 0)
        });
        let found = ends?.swap_remove(0);
        let evaluation = Evaluation {
            checkpoint: path,
            step: reader.step(),
            grid,
            prefix,
            stride,
            texts: inputs.texts(&found),
            tasks: inputs.tasks(&found),
            predicted_tokens: inputs.work().num_predicted(),
            seconds: begun.elapsed().as_secs_f64(),
        };
        Ok((evaluation, samples(&inputs, &found)?))
    }

    // How texts and questions are read.
    fn manner(&self, tokenizer: &Tokenizer, form: train::architecture::Text) -> Outcome<Manner> {
        let stride = self.stride.unwrap_or(form.context);
        let flag = |error: train::Error| Failure::usage(format!("--{error}"));
        rolling_windows(&[], 0, form, stride)
            .map(drop)
            .map_err(flag)?;
        let prefix = match self.prefix {
            Some(prefix) => Some(prefix),
            None if self.text.is_empty() => prefix_token(tokenizer).ok(),
            None => Some(prefix_token(tokenizer).map_err(flag)?),
        };
        match prefix.filter(|token| *token as usize >= form.vocabulary) {
            None => Ok(Manner {
                prefix,
                stride,
                delimiter: self.delimiter.clone(),
            }),
            Some(token) => Err(Failure::usage(format!(
                "--prefix: found token {token}, needs one below the vocabulary of {}",
                form.vocabulary
            ))),
        }
    }
}

// All files, one after the other. The first rank shows how far it is.
fn score(
    scorer: &Scorer<'_>,
    work: &Work,
    (prefix, stride): (Option<u32>, usize),
    shows: bool,
) -> train::Result<Found> {
    let mut found = Found::default();
    for documents in &work.texts {
        let total = documents.iter().map(|document| document.tokens.len()).sum();
        let bar = ItemBar::new("tokens", total, shows);
        // Documents are read only if there is a token before them.
        let manner = (prefix.unwrap_or_default(), stride);
        let sums = eval::perplexity(scorer, documents, manner, &mut |done| bar.add(done))?;
        bar.leave();
        found.texts.push(sums);
    }
    for questions in &work.tasks {
        let total = questions
            .iter()
            .map(|question| question.sequences.len())
            .sum();
        let bar = ItemBar::new("choices", total, shows);
        let scores = eval::score_questions(scorer, questions, &mut |done| bar.add(done))?;
        bar.leave();
        found.tasks.push(scores);
    }
    Ok(found)
}
