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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Encoded {
    /// Where each sample begins in `tokens`, and where the last ends.
    starts: Vec<usize>,
    tokens: Vec<u32>,
    counts: Vec<bool>,
    /// Samples that are longer.
    pub(super) num_cut: usize,
    /// Samples of which nothing counts.
    pub(super) num_dropped: usize,
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
        let has_chats = samples
            .iter()
            .any(|sample| matches!(sample, Sample::Chat(_)));
        let template = tokenizer.chat().filter(|_| has_chats);
        let texts = Texts {
            name,
            tokenizer,
            renderer: template.map(ChatTemplate::renderer).transpose()?,
            loss,
        };
        let all = samples.iter().enumerate();
        let pieces = all.map(|(index, sample)| texts.pieces(index, sample));
        let pieces = pieces.collect::<Result<Vec<_>>>()?;
        let ending = tokenizer.ending()?;
        let mut encoded = Encoded {
            starts: vec![0],
            ..Encoded::default()
        };
        for (sample, mut marked) in samples.iter().zip(tokenizer.encode_pieces(&pieces)?) {
            if !matches!(sample, Sample::Chat(_)) {
                marked.extend(ending.clone(), true);
            }
            let length = marked.tokens.len().min(context + 1);
            let counts = &marked.counts[..length];
            // Nothing predicts the first token.
            if !counts.iter().skip(1).any(|counts| *counts) {
                encoded.num_dropped += 1;
                continue;
            }
            encoded.num_cut += usize::from(marked.tokens.len() > length);
            encoded.tokens.extend_from_slice(&marked.tokens[..length]);
            encoded.counts.extend_from_slice(counts);
            encoded.starts.push(encoded.tokens.len());
        }
        Ok(encoded)
    }

    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of tokens that a sample's row reads: all but the last, which is only predicted.
    pub(super) fn places(&self, sample: usize) -> usize {
        self.starts[sample + 1] - self.starts[sample] - 1
    }

    /// The tokens of a sample, and whether each counts.
    pub(super) fn sample(&self, sample: usize) -> (&[u32], &[bool]) {
        let range = self.starts[sample]..self.starts[sample + 1];
        (&self.tokens[range.clone()], &self.counts[range])
    }

    /// The CRC-32 of all tokens and marks.
    pub(super) fn checksum(&self) -> u32 {
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

/// How the samples of a file become texts.
struct Texts<'a> {
    name: &'a str,
    tokenizer: &'a Tokenizer,
    renderer: Option<Renderer<'a>>,
    loss: LossOn,
}

impl Texts<'_> {
    /// The pieces of a sample's text, each with whether it counts.
    fn pieces(&self, index: usize, sample: &Sample) -> Result<Vec<(String, bool)>> {
        let is_all = self.loss == LossOn::All;
        Ok(match sample {
            Sample::Text(text) => vec![(text.clone(), true)],
            Sample::Completion { prompt, completion } => {
                vec![(prompt.clone(), is_all), (completion.clone(), true)]
            }
            Sample::Chat(chat) => {
                let renderer = self.renderer.as_ref();
                let renderer = renderer.ok_or_else(|| self.no_template(index))?;
                match is_all {
                    true => vec![(renderer.whole(chat)?, true)],
                    false => renderer.pieces(chat)?,
                }
            }
        })
    }

    fn no_template(&self, index: usize) -> Error {
        Error::Samples {
            name: self.name.to_owned(),
            reason: format!(
                "sample {} is a chat, and the tokenizer {} has no template for chats, needs data.chat_template = \"FILE\"",
                index + 1,
                self.tokenizer.name()
            ),
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
        needed: "a file of samples, .jsonl, as for training",
    })
}
