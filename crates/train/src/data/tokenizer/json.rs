//! A `tokenizer.json` file, read by the `tokenizers` crate.

use std::fmt;
use std::sync::Arc;

use super::{
    MarkedTokens,
    cut::{PIECE_BYTES, cut_at_lines},
    fast::FastEncoder,
};
use crate::data::{Error, Result};

/// Pieces given to the library at a time, which limits the memory.
const PIECES_AT_ONCE: usize = 32;

/// Whole texts given to it at a time.
const TEXTS_AT_ONCE: usize = 1024;

/// Names under which known tokenizers store their end of text.
const DOCUMENT_ENDS: [&str; 4] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"];

/// A tokenizer with the text from which it was read.
#[derive(Clone)]
pub(super) struct JsonTokenizer {
    name: String,
    content: Arc<str>,
    tokenizer: Arc<tokenizers::Tokenizer>,
    vocabulary_size: usize,
    /// The token that ends a document, if the vocabulary has one.
    pub(super) document_end: Option<u32>,
}

impl JsonTokenizer {
    pub(super) fn parse(name: &str, content: &str) -> Result<JsonTokenizer> {
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(content).map_err(|error| fault(name, &error))?;
        tokenizer
            .with_truncation(None)
            .map_err(|error| fault(name, &error))?;
        tokenizer.with_padding(None);
        // The largest token instead of their number, because a vocabulary may have holes.
        let last = tokenizer.get_vocab(true).into_values().max();
        let vocabulary_size =
            last.ok_or_else(|| fault(name, &"its vocabulary is empty"))? as usize + 1;
        let document_end = DOCUMENT_ENDS
            .iter()
            .find_map(|end| tokenizer.token_to_id(end));
        let (name, content, tokenizer) = (name.to_owned(), content.into(), Arc::new(tokenizer));
        Ok(JsonTokenizer {
            name,
            content,
            tokenizer,
            vocabulary_size,
            document_end,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file's text.
    pub(super) fn content(&self) -> &str {
        &self.content
    }

    pub(super) fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        for group in self.pieces(text, PIECE_BYTES)?.chunks(PIECES_AT_ONCE) {
            let encoded = self.tokenizer.encode_batch_fast(group.to_vec(), false);
            for piece in encoded.map_err(|error| fault(&self.name, &error))? {
                tokens.extend_from_slice(piece.get_ids());
            }
        }
        Ok(tokens)
    }

    /// The tokens of a text as one, on this thread.
    pub(super) fn encode_piece(&self, text: &str) -> Result<Vec<u32>> {
        let encoded = self.tokenizer.encode_fast(text, false);
        let encoded = encoded.map_err(|error| fault(&self.name, &error))?;
        Ok(encoded.get_ids().to_vec())
    }

    /// An encoder for one thread.
    pub(super) fn encoder(&self) -> JsonEncoder<'_> {
        JsonEncoder {
            tokenizer: self,
            fast: FastEncoder::new(&self.tokenizer),
        }
    }

    // The text in parts of at most `limit` bytes, which have its tokens wherever a border can be found that lets them.
    fn pieces<'t>(&self, text: &'t str, limit: usize) -> Result<Vec<&'t str>> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while rest.len() > limit {
            let cut = cut_at_lines(rest, limit, |piece| self.encode_piece(piece))?;
            let (piece, after) = rest.split_at(cut.at);
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        Ok(pieces)
    }

    /// As [`Tokenizer::encode_pieces`](super::Tokenizer::encode_pieces).
    pub(super) fn encode_pieces(&self, texts: &[Vec<(String, bool)>]) -> Result<Vec<MarkedTokens>> {
        let mut all = Vec::with_capacity(texts.len());
        for group in texts.chunks(TEXTS_AT_ONCE) {
            let whole = |pieces: &Vec<(String, bool)>| -> String {
                pieces.iter().map(|(text, _)| text.as_str()).collect()
            };
            let whole: Vec<String> = group.iter().map(whole).collect();
            let encoded = self.tokenizer.encode_batch(whole, false);
            let encoded = encoded.map_err(|error| fault(&self.name, &error))?;
            for (pieces, text) in group.iter().zip(encoded) {
                let counts = text.get_offsets().iter().map(|at| counts(pieces, *at));
                all.push(MarkedTokens {
                    counts: counts.collect(),
                    tokens: text.get_ids().to_vec(),
                });
            }
        }
        Ok(all)
    }

    pub(super) fn decode(&self, tokens: &[u32]) -> String {
        // The library leaves out tokens that it does not know; an error can come only from its decoder's own
        // rules.
        self.tokenizer
            .decode(tokens, false)
            .unwrap_or_else(|_| char::REPLACEMENT_CHARACTER.to_string())
    }
}

/// As [`JsonTokenizer::encode_piece`], with what one thread has learnt of earlier texts.
pub(in crate::data) struct JsonEncoder<'t> {
    tokenizer: &'t JsonTokenizer,
    fast: Option<FastEncoder<'t>>,
}

impl JsonEncoder<'_> {
    pub(in crate::data) fn encode(&mut self, text: &str) -> Result<Vec<u32>> {
        let fast = self.fast.as_mut().map(|fast| fast.encode(text));
        match fast.transpose() {
            Ok(Some(Some(tokens))) => Ok(tokens),
            Ok(_) => self.tokenizer.encode_piece(text),
            Err(error) => Err(fault(&self.tokenizer.name, &error)),
        }
    }
}

impl fmt::Debug for JsonTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "JsonTokenizer({}, {} tokens)",
            self.name, self.vocabulary_size
        )
    }
}

/// Whether a token of these bytes of the whole text holds anything of a piece that counts.
fn counts(pieces: &[(String, bool)], (start, end): (usize, usize)) -> bool {
    let mut after = 0;
    pieces.iter().any(|(text, counts)| {
        let first = after;
        after += text.len();
        // A token of no bytes stands for something at its place.
        *counts && start < after && (end > first || start >= first)
    })
}

fn fault(name: &str, reason: &dyn fmt::Display) -> Error {
    Error::Tokenizer {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words of three letters; small enough to read.
    const WORDS: &str = r#"{
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "normalizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [{"id": 7, "content": "<|endoftext|>", "single_word": false, "lstrip": false,
                          "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "the": 1, "cat": 2, "sat": 3, "<|endoftext|>": 7},
                  "unk_token": "<unk>"}
    }"#;

    #[test]
    fn words_become_tokens_whatever_the_file_truncates() {
        let json = JsonTokenizer::parse("words.json", WORDS).unwrap();
        assert_eq!(json.encode("the cat sat the dog").unwrap(), [1, 2, 3, 1, 0]);
        assert_eq!(json.decode(&[1, 2]), "the cat");
        assert_eq!(
            json.vocabulary_size(),
            8,
            "the vocabulary has a hole, its last token is 7"
        );
        assert_eq!(json.document_end, Some(7));
        assert_eq!(format!("{json:?}"), "JsonTokenizer(words.json, 8 tokens)");
    }

    #[test]
    fn tokens_of_an_answer_count() {
        let json = JsonTokenizer::parse("words.json", WORDS).unwrap();
        let pieces = vec![
            ("the c".to_owned(), false),
            ("at sat".to_owned(), true),
            (" the".to_owned(), false),
        ];
        let marked = json.encode_pieces(&[pieces]).unwrap();
        assert_eq!(marked[0].tokens, [1, 2, 3, 1]);
        assert_eq!(marked[0].counts, [false, true, true, false]);
    }

    #[test]
    fn other_json_is_refused_by_name() {
        let error = JsonTokenizer::parse("a.json", "{}")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("data: tokenizer a.json: "), "{error}");
    }

    proptest! {
        #[test]
        fn pieces_are_the_text(text in "[a\né]{0,60}", limit in 4usize..20) {
            let json = JsonTokenizer::parse("words.json", WORDS).unwrap();
            let pieces = json.pieces(&text, limit).unwrap();
            prop_assert_eq!(pieces.concat(), text.clone());
            prop_assert!(pieces.iter().all(|piece| piece.len() <= limit));
        }
    }

    #[test]
    fn cuts_are_at_line_ends() {
        let json = JsonTokenizer::parse("words.json", WORDS).unwrap();
        let pieces = json.pieces("ab\ncd\nefghijk", 7).unwrap();
        assert_eq!(pieces, ["ab\ncd\n", "efghijk"]);
    }
}
