//! Samples as tokens, of which some count in the loss.

use serde::{Deserialize, Serialize};

use super::super::{ChatTemplate, Content, Error, Renderer, Result, Sample, Tokenizer};

/// The tokens of which a sample is to learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossOn {
    /// Completions, and what an assistant has written; of a text all.
    #[default]
    Answers,
    /// All of them.
    All,
}

/// Samples of one part, each cut to `context + 1` tokens, and without those of which nothing counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct Encoded {
    /// Where each sample begins in `tokens`, and where the last ends.
    starts: Vec<usize>,
    tokens: Vec<u32>,
    counts: Vec<bool>,
    /// Samples that are longer.
    pub(in crate::data) num_cut: usize,
    /// Samples of which nothing counts.
    pub(in crate::data) num_dropped: usize,
}

impl Encoded {
    /// The tokens of all samples.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`]; [`Error::Samples`] for a chat without a template, [`Error::Template`] for one that the
    /// template refuses.
    pub(super) fn new(
        (name, samples): (&str, &[Sample]),
        tokenizer: &Tokenizer,
        (context, loss): (usize, LossOn),
    ) -> Result<Encoded> {
        let given = samples.iter().enumerate();
        let given = given.map(|(index, sample)| Given {
            sample,
            number: index + 1,
            messages: 0,
        });
        let given: Vec<Given<'_>> = given.collect();
        let mut encoded = Encoded::default();
        for (tokens, counts) in tokens_of((name, &given), tokenizer, loss)? {
            let length = tokens.len().min(context + 1);
            if !learns(&counts[..length]) {
                encoded.num_dropped += 1;
                continue;
            }
            encoded.num_cut += usize::from(tokens.len() > length);
            encoded.push(&tokens[..length], &counts[..length]);
        }
        Ok(encoded)
    }

    /// Adds a sample: its tokens, and which of them count.
    pub(in crate::data) fn push(&mut self, tokens: &[u32], counts: &[bool]) {
        self.tokens.extend_from_slice(tokens);
        self.counts.extend_from_slice(counts);
        self.starts.push(self.tokens.len());
    }

    /// Number of samples.
    pub(in crate::data) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of tokens that a sample's row reads: all but the last, which is only predicted.
    pub(in crate::data) fn places(&self, sample: usize) -> usize {
        self.starts[sample + 1] - self.starts[sample] - 1
    }

    /// The tokens of a sample, and whether each counts.
    pub(in crate::data) fn sample(&self, sample: usize) -> (&[u32], &[bool]) {
        let range = self.starts[sample]..self.starts[sample + 1];
        (&self.tokens[range.clone()], &self.counts[range])
    }

    /// The CRC-32 of all tokens and marks.
    pub(in crate::data) fn checksum(&self) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        for sample in 0..self.len() {
            let (tokens, counts) = self.sample(sample);
            checksum.update(&(tokens.len() as u64).to_le_bytes());
            for (token, counts) in tokens.iter().zip(counts) {
                checksum.update(&token.to_le_bytes());
                checksum.update(&[u8::from(*counts)]);
            }
        }
        checksum.finalize()
    }
}

impl Default for Encoded {
    fn default() -> Encoded {
        Encoded {
            starts: vec![0],
            tokens: Vec::new(),
            counts: Vec::new(),
            num_cut: 0,
            num_dropped: 0,
        }
    }
}

/// Whether a sample has something to learn: nothing predicts its first token.
pub(in crate::data) fn learns(counts: &[bool]) -> bool {
    counts.iter().skip(1).any(|counts| *counts)
}

/// A sample of a file.
#[derive(Clone, Copy)]
pub(in crate::data) struct Given<'a> {
    /// What it holds.
    pub(in crate::data) sample: &'a Sample,
    /// Its number for people, from 1.
    pub(in crate::data) number: usize,
    /// Messages of a chat, at its beginning, of which none counts.
    pub(in crate::data) messages: usize,
}

/// The tokens of each sample, and which of them count.
///
/// # Errors
/// As [`Encoded::new`].
pub(in crate::data) fn tokens_of(
    (name, given): (&str, &[Given<'_>]),
    tokenizer: &Tokenizer,
    loss: LossOn,
) -> Result<Vec<(Vec<u32>, Vec<bool>)>> {
    let has_chats = given
        .iter()
        .any(|given| matches!(given.sample, Sample::Chat(_)));
    let template = tokenizer.chat().filter(|_| has_chats);
    let texts = Texts {
        name,
        tokenizer,
        renderer: template.map(ChatTemplate::renderer).transpose()?,
        loss,
    };
    let pieces = given.iter().map(|given| texts.pieces(given));
    let pieces = pieces.collect::<Result<Vec<_>>>()?;
    let ending = tokenizer.ending()?;
    let marked = tokenizer.encode_pieces(&pieces)?;
    let marked = given.iter().zip(marked).map(|(given, mut marked)| {
        if !matches!(given.sample, Sample::Chat(_)) {
            marked.extend(ending.clone(), true);
        }
        (marked.tokens, marked.counts)
    });
    Ok(marked.collect())
}

/// How the samples of a file become texts.
struct Texts<'a> {
    name: &'a str,
    tokenizer: &'a Tokenizer,
    renderer: Option<Renderer<'a>>,
    loss: LossOn,
}

impl Texts<'_> {
    /// The pieces of a sample's text, each with whether it counts.
    fn pieces(&self, given: &Given<'_>) -> Result<Vec<(String, bool)>> {
        let is_all = self.loss == LossOn::All;
        Ok(match given.sample {
            Sample::Text(text) => vec![(text.clone(), true)],
            Sample::Completion { prompt, completion } => {
                vec![(prompt.clone(), is_all), (completion.clone(), true)]
            }
            Sample::Chat(chat) => {
                let renderer = self.renderer.as_ref();
                let renderer = renderer.ok_or_else(|| self.no_template(given))?;
                match is_all {
                    true => vec![(renderer.whole(chat)?, true)],
                    false => renderer.pieces(chat, given.messages)?,
                }
            }
            Sample::Pair(_) => {
                return Err(self.fault(format!(
                    "sample {} is a pair, `chosen` and `rejected`, needs training.objective = \"dpo\"",
                    given.number
                )));
            }
        })
    }

    fn no_template(&self, given: &Given<'_>) -> Error {
        self.fault(format!(
            "sample {} is a chat, and the tokenizer {} has no template for chats, needs data.chat_template = \"FILE\"",
            given.number,
            self.tokenizer.name()
        ))
    }

    fn fault(&self, reason: String) -> Error {
        Error::Samples {
            name: self.name.to_owned(),
            reason,
        }
    }
}

/// The samples of the source that a setting names.
///
/// # Errors
/// [`Error::Setting`] for a source of another kind.
pub(in crate::data) fn samples_of(
    content: Content,
    setting: &'static str,
) -> Result<(String, Vec<Sample>)> {
    let found = match content {
        Content::Samples { name, samples } => return Ok((name, samples)),
        Content::Text(_) => "text",
        Content::Tokens { .. } | Content::Folder(_) => "tokens",
    };
    Err(Error::Setting {
        setting,
        found: format!("{}, {found}", content.name()),
        needed: "a file of samples, .jsonl",
    })
}
