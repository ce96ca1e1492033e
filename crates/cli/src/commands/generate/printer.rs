//! Texts on their way to stdout: the first that has not ended as it comes, later ones when their turn has come.

use super::prompts::Prompts;
use crate::{failure::Failure, output};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use train::{
    data::Tokenizer,
    generate::{Finish, Generated},
};

/// Prints a piece of text. Where nobody reads it, `closed` becomes true.
///
/// # Errors
/// [`train::Error::Io`] if stdout takes no text.
pub(super) fn emit(closed: &AtomicBool, piece: &str) -> train::Result<()> {
    let Err(failure) = output::piece(piece) else {
        return Ok(());
    };
    let is_closed = matches!(failure, Failure::PipeClosed);
    closed.store(is_closed, Ordering::Relaxed);
    let sentence = failure.sentence().unwrap_or("stdout").to_owned();
    Err(std::io::Error::other(sentence).into())
}

/// A prompt and its continuation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Written {
    prompt: String,
    text: String,
    tokens: Vec<WrittenToken>,
    finish: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct WrittenToken {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprob: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    top: Vec<Likely>,
}

#[derive(Clone, Debug, Serialize)]
struct Likely {
    id: u32,
    text: String,
    logprob: f64,
}

/// The texts so far.
pub(super) struct Printer<'a> {
    prompts: Prompts,
    tokenizer: &'a Tokenizer,
    texts: Vec<Written>,
    // The text that is being printed, and how much of it was, if texts are printed as they come.
    printing: Option<(usize, usize)>,
}

impl<'a> Printer<'a> {
    /// For these prompts, which are `shown` before what continues them; `streams` prints texts as they come.
    ///
    /// # Errors
    /// As [`add`](Printer::add).
    pub(super) fn new(
        prompts: Prompts,
        tokenizer: &'a Tokenizer,
        (shown, streams): (bool, bool),
    ) -> train::Result<Printer<'a>> {
        let begun = |prompt: &String| Written {
            prompt: prompt.clone(),
            text: if shown { prompt.clone() } else { String::new() },
            tokens: Vec::new(),
            finish: "",
        };
        let texts = prompts.texts().iter().map(begun).collect();
        let mut printer = Printer {
            prompts,
            tokenizer,
            texts,
            printing: streams.then_some((0, 0)),
        };
        printer.print()?;
        Ok(printer)
    }

    /// Adds a token.
    ///
    /// # Errors
    /// [`train::Error::Io`] if stdout takes no text.
    pub(super) fn add(&mut self, token: &Generated) -> train::Result<()> {
        let likely = |(id, logprob): &(u32, f64)| Likely {
            id: *id,
            text: self.tokenizer.decode(&[*id]),
            logprob: *logprob,
        };
        let text = &mut self.texts[token.request.0 as usize];
        text.tokens.push(WrittenToken {
            id: token.token,
            logprob: token.log_probability,
            top: token.likeliest.iter().map(likely).collect(),
        });
        text.text += &token.text;
        if let Some(finish) = token.finish {
            text.finish = match finish {
                Finish::Length => "length",
                Finish::Stop => "stop",
                Finish::End => "end",
            };
        }
        self.print()
    }

    /// All texts.
    pub(super) fn into_written(self) -> Vec<Written> {
        self.texts
    }

    // Prints what is certain of the text whose turn it is, and of those after it if it has ended.
    fn print(&mut self) -> train::Result<()> {
        while let Some((index, printed)) = &mut self.printing {
            let Some(text) = self.texts.get(*index) else {
                return Ok(());
            };
            let (mut piece, ended) = (text.text[*printed..].to_owned(), !text.finish.is_empty());
            *printed = text.text.len();
            if ended {
                (*index, *printed) = (*index + 1, 0);
                piece += if *index < self.texts.len() {
                    "\n\n"
                } else {
                    "\n"
                };
            }
            emit(&self.prompts.pipe_closed(), &piece)?;
            if !ended {
                return Ok(());
            }
        }
        Ok(())
    }
}
