//! The texts and questions of files, as the model reads them.

use super::results::{Found, TaskResult, TextResult};
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};
use train::{
    architecture::Text,
    data::{Content, Sample, Source, Tokenizer},
    eval::{Document, EncodedQuestion, QuestionFile},
};

/// How texts and questions become sequences.
pub(super) struct Manner {
    /// The token before a text.
    pub(super) prefix: Option<u32>,
    /// The tokens that a window predicts.
    pub(super) stride: usize,
    /// What stands between a context and a choice.
    pub(super) delimiter: String,
}

/// What the ranks score, by file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) texts: Vec<Vec<Document>>,
    pub(super) tasks: Vec<Vec<EncodedQuestion>>,
}

impl Work {
    /// The tokens that are predicted.
    pub(super) fn num_predicted(&self) -> usize {
        let documents = self.texts.iter().flatten();
        let of_texts: usize = documents.map(|document| document.tokens.len()).sum();
        let questions = self.tasks.iter().flatten();
        let sequences = questions.flat_map(|question| &question.sequences);
        of_texts
            + sequences
                .map(|sequence| sequence.predicted().len())
                .sum::<usize>()
    }
}

/// The files, and what the ranks score of them.
#[derive(Debug)]
pub(super) struct Inputs {
    texts: Vec<String>,
    /// The files' questions.
    pub(super) questions: Vec<QuestionFile>,
    work: Work,
}

impl Inputs {
    /// Reads all files.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the file, and the line of a question, that cannot be read or scored.
    pub(super) fn read(
        texts: &[PathBuf],
        tasks: &[PathBuf],
        manner: &Manner,
        model: (&Tokenizer, Text),
    ) -> Outcome<Inputs> {
        let questions = tasks.iter().map(|path| QuestionFile::read(path));
        let questions: Vec<QuestionFile> = questions
            .collect::<Result<_, _>>()
            .map_err(Failure::usage)?;
        let documents = texts.iter().map(|path| documents(path, model));
        let encoded = questions.iter().map(|file| encode(file, manner, model));
        Ok(Inputs {
            texts: texts
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            work: Work {
                texts: documents.collect::<Outcome<_>>()?,
                tasks: encoded.collect::<Outcome<_>>()?,
            },
            questions,
        })
    }

    /// What the ranks score.
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    /// The results of the texts.
    pub(super) fn texts(&self, found: &Found) -> Vec<TextResult> {
        let pairs = self.texts.iter().zip(&found.texts);
        pairs
            .map(|(file, sums)| TextResult::of(file, sums))
            .collect()
    }

    /// The results of the questions.
    pub(super) fn tasks(&self, found: &Found) -> Vec<TaskResult> {
        let pairs = self.questions.iter().zip(&found.tasks);
        pairs
            .map(|(file, scores)| TaskResult::of(&file.name, scores))
            .collect()
    }
}

// The documents of a file that have a token.
fn documents(path: &Path, (tokenizer, form): (&Tokenizer, Text)) -> Outcome<Vec<Document>> {
    let refuse = |why: String| Failure::usage(format!("--text {}: {why}", path.display()));
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Err(refuse("found a folder, needs a file".into()));
    }
    let lines = path
        .extension()
        .is_some_and(|extension| extension == "jsonl");
    let source = match lines {
        true => Source::Lines(path.to_owned()),
        false => Source::TextFile(path.to_owned()),
    };
    let texts = match source.read().map_err(Failure::usage)? {
        Content::Text(text) => text.documents,
        Content::Samples { samples, .. } => samples
            .into_iter()
            .enumerate()
            .map(|(index, sample)| match sample {
                Sample::Text(text) => Ok(text),
                _ => Err(refuse(format!(
                    "sample {} has no `text`, needs one",
                    index + 1
                ))),
            })
            .collect::<Outcome<_>>()?,
        _ => return Err(refuse("found tokens, needs text".into())),
    };
    let mut documents = Vec::new();
    for text in &texts {
        let document = Document::new(text, tokenizer, form);
        documents.push(document.map_err(|error| refuse(error.to_string()))?);
    }
    documents.retain(|document| !document.tokens.is_empty());
    match documents.is_empty() {
        true => Err(refuse("found no token, needs at least 1".into())),
        false => Ok(documents),
    }
}

fn encode(
    file: &QuestionFile,
    manner: &Manner,
    model: (&Tokenizer, Text),
) -> Outcome<Vec<EncodedQuestion>> {
    let encoded = file.questions.iter().map(|question| {
        let encoded = EncodedQuestion::new(question, model, &manner.delimiter, manner.prefix);
        encoded.map_err(|error| {
            Failure::usage(format!(
                "--tasks {}, line {}: {error}",
                file.name, question.line
            ))
        })
    });
    encoded.collect()
}
