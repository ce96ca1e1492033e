//! Replaces `json` in a build without the feature `tokenizers`, and refuses every file.

use super::MarkedTokens;
use crate::data::{Error, Result};

/// No value of this type exists, so its methods are never called.
#[derive(Debug, Clone)]
pub(super) struct JsonTokenizer {
    never: std::convert::Infallible,
    pub(super) document_end: Option<u32>,
}

impl JsonTokenizer {
    pub(super) fn parse(name: &str, _content: &str) -> Result<JsonTokenizer> {
        Err(Error::Tokenizer {
            name: name.to_owned(),
            reason: "found a build without the feature `tokenizers`, needs one with it: cargo build --features tokenizers"
                .into(),
        })
    }

    pub(super) fn name(&self) -> &str {
        match self.never {}
    }

    pub(super) fn content(&self) -> &str {
        match self.never {}
    }

    pub(super) fn vocabulary_size(&self) -> usize {
        match self.never {}
    }

    pub(super) fn encode(&self, _text: &str) -> Result<Vec<u32>> {
        match self.never {}
    }

    pub(super) fn encode_piece(&self, _text: &str) -> Result<Vec<u32>> {
        match self.never {}
    }

    pub(super) fn encoder(&self) -> JsonEncoder<'_> {
        match self.never {}
    }

    pub(super) fn encode_pieces(
        &self,
        _texts: &[Vec<(String, bool)>],
    ) -> Result<Vec<MarkedTokens>> {
        match self.never {}
    }

    pub(super) fn decode(&self, _tokens: &[u32]) -> String {
        match self.never {}
    }
}

/// No value of this type exists either.
pub(in crate::data) struct JsonEncoder<'t>(&'t JsonTokenizer);

impl JsonEncoder<'_> {
    pub(in crate::data) fn encode(&mut self, _text: &str) -> Result<Vec<u32>> {
        match self.0.never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_the_feature() {
        let error = JsonTokenizer::parse("words.json", "{}")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "data: tokenizer words.json: found a build without the feature `tokenizers`, needs one with it: cargo build --features tokenizers"
        );
    }
}
