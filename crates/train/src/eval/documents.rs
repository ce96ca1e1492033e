//! The perplexity of documents.

use super::{Scorer, rolling_windows, sequence::in_vocabulary};
use crate::{Error, Result, architecture::Text, data::Tokenizer};
use serde::{Deserialize, Serialize};

/// Windows that are scored together, so that a long text does not fill the host's memory; in passes of the scorer.
const PASSES_AT_ONCE: usize = 64;

/// A text as the model reads it, with what its measures are divided by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The bytes of its text in UTF-8.
    pub bytes: usize,
    /// Its words, as [`num_words`] counts them.
    pub words: usize,
}

impl Document {
    /// The document of this text, for a model that reads `form`.
    ///
    /// # Errors
    /// Those of the tokenizer; [`Error::Setting`] for a token outside the vocabulary.
    pub fn new(text: &str, tokenizer: &Tokenizer, form: Text) -> Result<Document> {
        let tokens = tokenizer.encode(text)?;
        in_vocabulary("tokens", &tokens, form)?;
        Ok(Document {
            tokens,
            bytes: text.len(),
            words: num_words(text),
        })
    }
}

/// The number of pieces between runs of white space, as lm-evaluation-harness counts words: an empty piece at the beginning or
/// the end counts, so `"a b\n"` has three.
pub fn num_words(text: &str) -> usize {
    let (mut words, mut was_space) = (1, false);
    for letter in text.chars() {
        let is_space = letter.is_whitespace();
        words += usize::from(is_space && !was_space);
        was_space = is_space;
    }
    words
}

/// The token before the first one of a document, from which that is predicted: the end of a document, otherwise a line end. Both
/// stand between documents in training.
///
/// # Errors
/// [`Error::Setting`] for a tokenizer that has neither.
pub fn prefix_token(tokenizer: &Tokenizer) -> Result<u32> {
    let line_end = || tokenizer.encode("\n").ok()?.last().copied();
    tokenizer.document_end().or_else(line_end).ok_or_else(|| {
        let found = format!("none in the tokenizer {}", tokenizer.name());
        let needed = "a token for the end of a document or of a line, or the id of another token";
        Error::setting("prefix", found, needed)
    })
}

/// Sums over documents, and the measures that follow from them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DocumentSums {
    /// Documents.
    pub documents: usize,
    /// Tokens, each predicted once.
    pub tokens: usize,
    /// Bytes of the texts.
    pub bytes: usize,
    /// Words of the texts.
    pub words: usize,
    /// The logarithm of the probability of all tokens, in nats.
    pub log_likelihood: f64,
}

impl DocumentSums {
    /// The mean negative log-likelihood of a token, in nats.
    pub fn loss(&self) -> f64 {
        self.per(self.tokens)
    }

    /// Exponential of the mean negative log-likelihood of a token. Models of other vocabularies have other tokens.
    pub fn token_perplexity(&self) -> f64 {
        self.per(self.tokens).exp()
    }

    /// The same for each word of the text.
    pub fn word_perplexity(&self) -> f64 {
        self.per(self.words).exp()
    }

    /// The same for each byte of the text.
    pub fn byte_perplexity(&self) -> f64 {
        self.per(self.bytes).exp()
    }

    /// The logarithm of [`byte_perplexity`](DocumentSums::byte_perplexity) to base 2.
    pub fn bits_per_byte(&self) -> f64 {
        self.per(self.bytes) / std::f64::consts::LN_2
    }

    fn per(&self, count: usize) -> f64 {
        -self.log_likelihood / count as f64
    }
}

/// The log-likelihood of documents, each predicted in [`rolling_windows`] after `prefix`. Calls `progress` with the number of
/// tokens that were predicted since the last call. Collective.
///
/// # Errors
/// Those of [`rolling_windows`] and of [`Scorer::score`].
pub fn perplexity(
    scorer: &Scorer<'_>,
    documents: &[Document],
    (prefix, stride): (u32, usize),
    progress: &mut dyn FnMut(usize),
) -> Result<DocumentSums> {
    let mut sums = DocumentSums {
        documents: documents.len(),
        ..DocumentSums::default()
    };
    for document in documents {
        sums.tokens += document.tokens.len();
        sums.bytes += document.bytes;
        sums.words += document.words;
    }
    let mut windows = Vec::new();
    let mut score = |windows: &mut Vec<_>| -> Result<()> {
        for window in scorer.score(windows, &mut |_| {})? {
            sums.log_likelihood += window.log_likelihood();
            progress(window.log_likelihoods.len());
        }
        windows.clear();
        Ok(())
    };
    for document in documents {
        for window in rolling_windows(&document.tokens, prefix, scorer.text(), stride)? {
            windows.push(window?);
            if windows.len() == scorer.batch() * PASSES_AT_ONCE {
                score(&mut windows)?;
            }
        }
    }
    score(&mut windows)?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(vocabulary: usize) -> Text {
        Text {
            context: 4,
            vocabulary,
        }
    }

    #[test]
    fn a_token_outside_the_vocabulary_is_refused() {
        let error = Document::new("ab", &Tokenizer::bytes(), form(98)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tokens: found token 98, needs one below the vocabulary of 98"
        );
    }

    #[test]
    fn words_are_the_pieces_between_white_space() {
        let cases = [
            ("", 1),
            ("a", 1),
            ("a b", 2),
            ("a \n\tb", 2),
            (" a b\n", 4),
            ("\u{a0}", 2),
        ];
        for (text, words) in cases {
            assert_eq!(num_words(text), words, "{text:?}");
        }
    }

    #[test]
    fn measures_of_a_uniform_model() {
        let document = Document::new("ab é\n", &Tokenizer::bytes(), form(256)).unwrap();
        assert_eq!(
            (document.tokens.len(), document.bytes, document.words),
            (6, 6, 3)
        );
        let sums = DocumentSums {
            documents: 1,
            tokens: 6,
            bytes: 6,
            words: 3,
            log_likelihood: -6.0 * 256_f64.ln(),
        };
        let near =
            |found: f64, needed: f64| assert!((found / needed - 1.0).abs() < 1e-12, "{found}");
        near(sums.loss(), 256_f64.ln());
        near(sums.token_perplexity(), 256.0);
        near(sums.byte_perplexity(), 256.0);
        near(sums.bits_per_byte(), 8.0);
        near(sums.word_perplexity(), 65536.0);
    }

    #[test]
    fn the_first_token_follows_a_line_end_where_no_token_ends_documents() {
        assert_eq!(prefix_token(&Tokenizer::bytes()).unwrap(), 10);
        let error = prefix_token(&Tokenizer::ids(5)).unwrap_err().to_string();
        assert!(
            error.starts_with("prefix: found none in the tokenizer ids"),
            "{error}"
        );
        assert!(prefix_token(&Tokenizer::characters(&["ab".into()])).is_err());
    }
}
