//! What is asked of a generator, and what it returns.

use super::Sampling;
use crate::{
    Error, Result,
    data::{ChatTemplate, Tokenizer},
};
use serde::{Deserialize, Serialize};

/// The most tokens of one request.
pub const MOST_TOKENS: usize = 1 << 20;
/// The most stop strings of one request, and the most bytes of each.
const MOST_STOPS: usize = 16;
const MOST_STOP_BYTES: usize = 1024;
/// The most tokens of which log-probabilities are returned at each place.
const MOST_LIKELIEST: usize = 100;

/// A text to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The tokens to continue, at least one.
    pub prompt: Vec<u32>,
    /// The most tokens to add.
    pub tokens: usize,
    /// How each is chosen.
    pub sampling: Sampling,
    /// Strings before the first of which the text ends.
    pub stop: Vec<String>,
    /// A token that ends the text.
    pub end: Option<u32>,
    /// With each token, its log-probability and those of this many of the most likely tokens.
    pub log_probabilities: Option<usize>,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            prompt: Vec::new(),
            tokens: 256,
            sampling: Sampling::default(),
            stop: Vec::new(),
            end: None,
            log_probabilities: None,
        }
    }
}

impl Request {
    /// Checks the numbers, for a model of this vocabulary.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first that cannot be.
    pub fn check(&self, vocabulary: usize) -> Result<()> {
        self.sampling.check()?;
        if self.prompt.is_empty() {
            return Err(Error::setting("prompt", "no token", "at least 1"));
        }
        let of_prompt = self.prompt.iter().map(|id| ("prompt", *id));
        let mut ids = of_prompt.chain(self.end.map(|id| ("end", id)));
        if let Some((key, id)) = ids.find(|(_, id)| *id as usize >= vocabulary) {
            let needed = format!("one below the vocabulary of {vocabulary}");
            return Err(Error::setting(key, format_args!("token {id}"), needed));
        }
        within("tokens", self.tokens, 1, MOST_TOKENS)?;
        within("stop", self.stop.len(), 0, MOST_STOPS)?;
        let likeliest = self.log_probabilities.unwrap_or(0);
        within("log_probabilities", likeliest, 0, MOST_LIKELIEST)?;
        for stop in &self.stop {
            within("stop: bytes of a string", stop.len(), 1, MOST_STOP_BYTES)?;
        }
        Ok(())
    }

    /// The request for an answer in a chat, which also ends at the token or text that the template writes after an answer.
    ///
    /// # Errors
    /// Those of [`ChatTemplate::after_answer`] and of the tokenizer.
    pub fn answering(self, template: &ChatTemplate, tokenizer: &Tokenizer) -> Result<Request> {
        let mut request = self;
        request.stop.extend(template.after_answer()?);
        let end = tokenizer.encode(template.eos_token())?;
        if let ([end], None) = (&end[..], request.end) {
            request.end = Some(*end);
        }
        Ok(request)
    }
}

pub(crate) fn within(key: &str, found: usize, least: usize, most: usize) -> Result<()> {
    match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(Error::setting(
            key,
            found,
            format!("a number from {least} to {most}"),
        )),
    }
}

/// The number of a request, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Why a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It has as many tokens as were asked for.
    Length,
    /// A stop string; it is not part of the text.
    Stop,
    /// The token that ends a text.
    End,
}

/// A token of a request, as it arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Whose it is.
    pub request: RequestId,
    /// The token.
    pub token: u32,
    /// The text that is certain since then: whole characters, without what may begin a stop string.
    pub text: String,
    /// The log-probability that the model gives the token, before temperature, penalty and filters, if asked for.
    pub log_probability: Option<f64>,
    /// The most likely tokens with theirs, the most likely first, as many as asked for.
    pub likeliest: Vec<(u32, f64)>,
    /// Why this token is the last one, if it is.
    pub finish: Option<Finish>,
    /// The first tokens of the prompt whose keys and values another text has computed.
    pub reused_tokens: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (fn(&mut Request), &'static str);

    #[test]
    fn requests_that_cannot_be_are_refused_with_their_numbers() {
        let refused = |edit: fn(&mut Request)| {
            let mut request = Request {
                prompt: vec![1],
                ..Request::default()
            };
            request.check(10).unwrap();
            edit(&mut request);
            request.check(10).unwrap_err().to_string()
        };
        let cases: [Case; 8] = [
            (
                |r| r.prompt.clear(),
                "prompt: found no token, needs at least 1",
            ),
            (
                |r| r.prompt = vec![3, 10],
                "prompt: found token 10, needs one below the vocabulary of 10",
            ),
            (|r| r.end = Some(12), "end: found token 12"),
            (
                |r| r.tokens = 0,
                "tokens: found 0, needs a number from 1 to 1048576",
            ),
            (
                |r| r.stop = vec!["a".into(); 17],
                "stop: found 17, needs a number from 0 to 16",
            ),
            (
                |r| r.stop = vec![String::new()],
                "stop: bytes of a string: found 0, needs a number from 1 to 1024",
            ),
            (
                |r| r.log_probabilities = Some(101),
                "log_probabilities: found 101, needs a number from 0 to 100",
            ),
            (|r| r.sampling.top_p = 2.0, "top_p: found 2"),
        ];
        for (edit, needed) in cases {
            let error = refused(edit);
            assert!(error.contains(needed), "{error}");
        }
    }
}
