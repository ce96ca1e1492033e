//! Tokens with their name and vocabulary, from which a data set is cut.

use std::ops::Range;

use super::{Content, Error, Result, Tokenizer, Tokens};

/// Files below this size are checked completely when opened, larger ones as they are read.
const CHECK_WHOLE_BELOW_TOKENS: usize = 1 << 27;

/// Number of tokens that the check reads at once.
const CHECK_TOKENS: usize = 1 << 16;

/// Number of such stretches that are checked in a larger file.
const STRETCHES: usize = 1 << 8;

/// A sequence of tokens of one vocabulary.
#[derive(Debug)]
pub struct Corpus {
    name: String,
    tokens: Tokens,
    vocabulary_size: usize,
    num_skipped: usize,
    checksum: u32,
}

impl Corpus {
    /// Tokenises `content`, or takes its tokens as they are.
    ///
    /// Tokens are compared with the vocabulary here, except in files of more than 2^27 tokens: reading those
    /// completely would delay the start by minutes, so all but 2^24 of their tokens are compared as they are read.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`]; [`Error::TokenRange`] for a token outside the vocabulary; [`Error::OtherTokenizer`]
    /// for a token folder of another tokenizer; [`Error::Empty`] for no tokens; [`Error::Shrunk`] and [`Error::Io`] from a token file.
    pub fn new(content: Content, tokenizer: &Tokenizer) -> Result<Corpus> {
        let vocabulary_size = tokenizer.vocabulary_size();
        let mut corpus = match content {
            Content::Tokens { name, tokens } => Corpus {
                name,
                tokens,
                vocabulary_size,
                num_skipped: 0,
                checksum: 0,
            },
            Content::Folder(folder) => {
                folder.check_tokenizer(tokenizer)?;
                Corpus {
                    name: folder.name(),
                    tokens: folder.into_tokens(),
                    vocabulary_size,
                    num_skipped: 0,
                    checksum: 0,
                }
            }
            Content::Samples { name, .. } => {
                return Err(Error::Setting {
                    setting: "source",
                    found: format!("{name}, samples"),
                    needed: "text or tokens",
                });
            }
            Content::Text(text) => {
                let tokens = tokenizer.encode_documents(&text.documents)?;
                Corpus {
                    name: text.name,
                    tokens,
                    vocabulary_size,
                    num_skipped: text.num_skipped,
                    checksum: 0,
                }
            }
        };
        if corpus.tokens.is_empty() {
            return Err(Error::Empty { name: corpus.name });
        }
        corpus.checksum = corpus.scan()?;
        Ok(corpus)
    }

    /// Where the tokens come from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none, which [`Corpus::new`] excludes.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// All tokens are below this.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    /// The CRC-32 of the tokens that [`Corpus::new`] has read, and of their number.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Files of a folder that were left out because they were not UTF-8.
    pub fn num_skipped(&self) -> usize {
        self.num_skipped
    }

    /// Appends the tokens of `range` to `out`, after comparing them with the vocabulary.
    ///
    /// # Errors
    /// [`Error::TokenRange`] with the first token outside it; [`Error::Shrunk`] and [`Error::Io`] from a token file.
    ///
    /// # Panics
    /// When `range` ends past the tokens: the caller's bug.
    pub fn extend_into(&self, range: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        let (before, start) = (out.len(), range.start);
        self.tokens.extend_into(range, out)?;
        match out[before..]
            .iter()
            .position(|&token| token as usize >= self.vocabulary_size)
        {
            None => Ok(()),
            Some(at) => Err(self.outside(out[before + at], start + at)),
        }
    }

    // Compares every token with the vocabulary, in a large file those of evenly spread stretches, and returns their checksum.
    fn scan(&self) -> Result<u32> {
        let num_stretches = match self.len() < CHECK_WHOLE_BELOW_TOKENS {
            true => self.len().div_ceil(CHECK_TOKENS),
            false => STRETCHES,
        };
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&(self.len() as u64).to_le_bytes());
        let mut tokens = Vec::with_capacity(CHECK_TOKENS.min(self.len()));
        let step = self.len().div_ceil(num_stretches).max(CHECK_TOKENS);
        for start in (0..self.len()).step_by(step) {
            tokens.clear();
            self.extend_into(start..self.len().min(start + CHECK_TOKENS), &mut tokens)?;
            let bytes: Vec<u8> = tokens
                .iter()
                .flat_map(|token| token.to_le_bytes())
                .collect();
            checksum.update(&bytes);
        }
        Ok(checksum.finalize())
    }

    fn outside(&self, token: u32, position: usize) -> Error {
        let (name, vocabulary_size) = (self.name.clone(), self.vocabulary_size);
        Error::TokenRange {
            name,
            token,
            position,
            vocabulary_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Source;

    fn numbers(ids: Vec<u32>) -> Content {
        Content::Tokens {
            name: "a.u32".into(),
            tokens: Tokens::from_ids(ids),
        }
    }

    #[test]
    fn text_and_numbers_become_tokens() {
        let content = Source::Embedded(b"abc".to_vec()).read().unwrap();
        let corpus = Corpus::new(content, &Tokenizer::bytes()).unwrap();
        assert_eq!(
            (corpus.len(), corpus.vocabulary_size(), corpus.num_skipped()),
            (3, 256, 0)
        );
        let mut out = Vec::new();
        corpus.extend_into(1..3, &mut out).unwrap();
        assert_eq!(out, [98, 99]);
        assert_eq!(
            Corpus::new(numbers(vec![0, 4]), &Tokenizer::ids(5))
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn a_token_outside_the_vocabulary_is_placed() {
        let mut ids = vec![1; CHECK_TOKENS + 10];
        ids[CHECK_TOKENS + 3] = 5;
        let error = Corpus::new(numbers(ids), &Tokenizer::ids(5))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "data: a.u32: token 5 at position 65,539 is outside the vocabulary of 5; set data.tokenizer.ids to the number of tokens that the ids are of, as in --set data.tokenizer.ids=50257 for GPT-2's"
        );
    }

    #[test]
    fn nothing_is_an_error() {
        let error = Corpus::new(numbers(Vec::new()), &Tokenizer::ids(5))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "data: a.u32 is empty");
    }
}
