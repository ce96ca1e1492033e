//! The results: as JSON, as a table, and those of each question.

use super::inputs::Inputs;
use crate::{
    commands::compare::aligned,
    failure::{Failure, Outcome},
    numbers::{counted, duration, grouped},
};
use serde::Serialize;
use std::{path::PathBuf, time::Duration};
use train::eval::{ChoiceSummary, DocumentSums, Mean, QuestionScore};

/// What the ranks found, by file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) texts: Vec<DocumentSums>,
    pub(super) tasks: Vec<Vec<QuestionScore>>,
}

/// All results. Numbers that are not finite are null in JSON.
#[derive(Serialize)]
pub(super) struct Evaluation {
    pub(super) checkpoint: PathBuf,
    pub(super) step: u64,
    pub(super) grid: String,
    /// The token before a text, if there is one.
    pub(super) prefix: Option<u32>,
    pub(super) stride: usize,
    pub(super) texts: Vec<TextResult>,
    pub(super) tasks: Vec<TaskResult>,
    pub(super) predicted_tokens: usize,
    /// From the start of the ranks to the last token.
    pub(super) seconds: f64,
}

/// The result of a file of text.
#[derive(Serialize)]
pub(super) struct TextResult {
    file: String,
    documents: usize,
    tokens: usize,
    bytes: usize,
    words: usize,
    log_likelihood: f64,
    /// Nats per token.
    loss: f64,
    token_perplexity: f64,
    byte_perplexity: f64,
    bits_per_byte: f64,
    word_perplexity: f64,
}

impl TextResult {
    /// The measures of these sums.
    pub(super) fn of(file: &str, sums: &DocumentSums) -> TextResult {
        TextResult {
            file: file.to_owned(),
            documents: sums.documents,
            tokens: sums.tokens,
            bytes: sums.bytes,
            words: sums.words,
            log_likelihood: sums.log_likelihood,
            loss: sums.loss(),
            token_perplexity: sums.token_perplexity(),
            byte_perplexity: sums.byte_perplexity(),
            bits_per_byte: sums.bits_per_byte(),
            word_perplexity: sums.word_perplexity(),
        }
    }
}

/// The result of a file of questions, with the names of lm-evaluation-harness.
#[derive(Serialize)]
pub(super) struct TaskResult {
    file: String,
    questions: usize,
    acc: f64,
    acc_stderr: Option<f64>,
    acc_norm: f64,
    acc_norm_stderr: Option<f64>,
    acc_bytes: f64,
    acc_bytes_stderr: Option<f64>,
    exact_match_mc: f64,
    exact_match_mc_stderr: Option<f64>,
}

impl TaskResult {
    /// The accuracy over these questions.
    pub(super) fn of(file: &str, scores: &[QuestionScore]) -> TaskResult {
        let summary = ChoiceSummary::of(scores);
        let pair = |mean: Mean| (mean.mean, mean.standard_error);
        let (acc, acc_stderr) = pair(summary.accuracy);
        let (acc_norm, acc_norm_stderr) = pair(summary.accuracy_per_character);
        let (acc_bytes, acc_bytes_stderr) = pair(summary.accuracy_per_byte);
        let (exact_match_mc, exact_match_mc_stderr) = pair(summary.greedy);
        TaskResult {
            file: file.to_owned(),
            questions: scores.len(),
            acc,
            acc_stderr,
            acc_norm,
            acc_norm_stderr,
            acc_bytes,
            acc_bytes_stderr,
            exact_match_mc,
            exact_match_mc_stderr,
        }
    }
}

impl Evaluation {
    /// What was predicted, and how fast.
    pub(super) fn speed(&self) -> String {
        format!(
            "predicted {} in {}, {} tokens/s",
            counted(self.predicted_tokens, "token"),
            duration(Duration::try_from_secs_f64(self.seconds).unwrap_or_default()),
            grouped((self.predicted_tokens as f64 / self.seconds) as u64)
        )
    }

    /// A table for the texts and one for the questions.
    pub(super) fn table(&self) -> String {
        let (texts, tasks) = (self.texts_table(), self.tasks_table());
        [texts, tasks]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    fn texts_table(&self) -> Option<String> {
        let titles =
            "tokens|bytes|words|loss|token perplexity|byte perplexity|bits/byte|word perplexity";
        let mut rows = vec![titled("text", titles)];
        for text in &self.texts {
            let counts = [text.tokens, text.bytes, text.words];
            let counts = counts.iter().map(|count| grouped(*count as u64));
            let numbers = [
                text.loss,
                text.token_perplexity,
                text.byte_perplexity,
                text.bits_per_byte,
                text.word_perplexity,
            ];
            let cells = counts.chain(numbers.map(number)).collect();
            rows.push((text.file.clone(), cells));
        }
        (rows.len() > 1).then(|| aligned(&rows))
    }

    fn tasks_table(&self) -> Option<String> {
        let titles = "questions|acc|acc_norm|acc_bytes|exact_match_mc";
        let mut rows = vec![titled("task", titles)];
        for task in &self.tasks {
            let cells = vec![
                grouped(task.questions as u64),
                share(task.acc, task.acc_stderr),
                share(task.acc_norm, task.acc_norm_stderr),
                share(task.acc_bytes, task.acc_bytes_stderr),
                share(task.exact_match_mc, task.exact_match_mc_stderr),
            ];
            rows.push((task.file.clone(), cells));
        }
        (rows.len() > 1).then(|| aligned(&rows))
    }
}

/// A question's result, a line of its own.
#[derive(Serialize)]
struct SampleLine<'a> {
    file: &'a str,
    line: usize,
    #[serde(flatten)]
    score: &'a QuestionScore,
}

/// The results of all questions, in their order.
///
/// # Errors
/// [`Failure::Run`] for what cannot be JSON.
pub(super) fn samples(inputs: &Inputs, found: &Found) -> Outcome<String> {
    let mut text = String::new();
    for (file, scores) in inputs.questions.iter().zip(&found.tasks) {
        for (question, score) in file.questions.iter().zip(scores) {
            let line = SampleLine {
                file: &file.name,
                line: question.line,
                score,
            };
            let line = serde_json::to_string(&line);
            text += &line.map_err(|error| Failure::run(format!("--samples: {error}")))?;
            text.push('\n');
        }
    }
    Ok(text)
}

fn titled(name: &str, titles: &str) -> (String, Vec<String>) {
    (
        name.to_owned(),
        titles.split('|').map(str::to_owned).collect(),
    )
}

// Four decimals, or the exponent of a number that would be long.
fn number(number: f64) -> String {
    match number.abs() {
        ..1e6 => format!("{number:.4}"),
        _ => format!("{number:.3e}"),
    }
}

fn share(mean: f64, error: Option<f64>) -> String {
    match error {
        Some(error) => format!("{mean:.4} ± {error:.4}"),
        None => format!("{mean:.4}"),
    }
}
