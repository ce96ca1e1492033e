//! Text to numbers and back: one enum, with a file for each kind that needs one and `choice` for configurations.

mod characters;
mod chat;
mod choice;
mod cut;
#[cfg(feature = "tokenizers")]
mod fast;
mod fingerprint;
mod ids;
#[cfg(feature = "tokenizers")]
mod json;
#[cfg(not(feature = "tokenizers"))]
#[path = "no_json.rs"]
mod json;
mod saved;

use serde::{Deserialize, Serialize};

use super::{Result, Tokens};
use characters::CharacterTable;
pub use chat::ChatTemplate;
pub(super) use chat::Renderer;
pub use choice::TokenizerChoice;
pub(super) use cut::{Cut, NEIGHBOURHOOD, PIECE_BYTES};
use json::{JsonEncoder, JsonTokenizer};
use saved::Saved;

/// The longest tokenizer file.
const MOST_BYTES: u64 = 256 << 20;

/// Turns text into tokens and back.
///
/// It serialises with everything it needs (a character table, the full content of a tokenizer file), so a
/// machine that has only the checkpoint can rebuild it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Saved", try_from = "Saved")]
pub struct Tokenizer {
    kind: TokenizerKind,
    chat: Option<ChatTemplate>,
}

#[derive(Debug, Clone)]
enum TokenizerKind {
    Bytes,
    Characters(CharacterTable),
    Json(JsonTokenizer),
    Ids { vocabulary_size: usize },
}

/// Byte tokens: every value of a byte.
const NUM_BYTES: usize = 256;

impl Tokenizer {
    /// Each byte of the text is a token; accepts any text, in any language.
    pub fn bytes() -> Tokenizer {
        TokenizerKind::Bytes.into()
    }

    /// Each character that occurs in `documents` is a token, numbered in the order of Unicode.
    pub fn characters(documents: &[String]) -> Tokenizer {
        TokenizerKind::Characters(CharacterTable::of(documents)).into()
    }

    /// The tokenizer of a `tokenizer.json` file of the `tokenizers` library, given by its content.
    ///
    /// `name` is for messages. Truncation and padding in the file are turned off: they serve batches of
    /// questions and would cut training text.
    ///
    /// # Errors
    /// [`super::Error::Tokenizer`] if the content does not describe a tokenizer, or the feature `tokenizers` is
    /// off.
    pub fn json(name: &str, content: &str) -> Result<Tokenizer> {
        Ok(TokenizerKind::Json(JsonTokenizer::parse(name, content)?).into())
    }

    /// Numbers are already tokens; text is numbers separated by spaces. For token files without a tokenizer.
    pub fn ids(vocabulary_size: usize) -> Tokenizer {
        TokenizerKind::Ids { vocabulary_size }.into()
    }

    /// The same with this template for chats, or with none.
    pub fn with_chat(self, chat: Option<ChatTemplate>) -> Tokenizer {
        Tokenizer { chat, ..self }
    }

    /// How a chat becomes text, if that is known.
    pub fn chat(&self) -> Option<&ChatTemplate> {
        self.chat.as_ref()
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`super::Error::UnknownCharacter`] from a character table; [`super::Error::Tokenizer`] from a tokenizer file,
    /// or for text that is no number; [`super::Error::TokenRange`] for a number outside the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            TokenizerKind::Bytes => Ok(text.bytes().map(u32::from).collect()),
            TokenizerKind::Characters(table) => table.encode(text),
            TokenizerKind::Json(json) => json.encode(text),
            TokenizerKind::Ids { vocabulary_size } => ids::encode(text, *vocabulary_size),
        }
    }

    /// The tokens of a text that is not to be cut, on the calling thread alone.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn encode_piece(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            TokenizerKind::Json(json) => json.encode_piece(text),
            _ => self.encode(text),
        }
    }

    /// An encoder for texts that are not to be cut, for one thread.
    pub(super) fn encoder(&self) -> PieceEncoder<'_> {
        match &self.kind {
            TokenizerKind::Json(json) => PieceEncoder::Json(Box::new(json.encoder())),
            _ => PieceEncoder::Own(self),
        }
    }

    /// The text of `tokens`.
    ///
    /// Bytes that do not form a character, and tokens outside a character table, become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.kind {
            TokenizerKind::Bytes => decode_bytes(tokens),
            TokenizerKind::Characters(table) => table.decode(tokens),
            TokenizerKind::Json(json) => json.decode(tokens),
            TokenizerKind::Ids { .. } => ids::decode(tokens),
        }
    }

    /// All tokens are below this.
    pub fn vocabulary_size(&self) -> usize {
        match &self.kind {
            TokenizerKind::Bytes => NUM_BYTES,
            TokenizerKind::Characters(table) => table.len(),
            TokenizerKind::Json(json) => json.vocabulary_size(),
            TokenizerKind::Ids { vocabulary_size } => *vocabulary_size,
        }
    }

    /// The token that ends a document, if the tokenizer has one.
    pub fn document_end(&self) -> Option<u32> {
        match &self.kind {
            TokenizerKind::Json(json) => json.document_end,
            _ => None,
        }
    }

    /// The text of its `tokenizer.json`, if it is of such a file.
    pub fn file_text(&self) -> Option<&str> {
        match &self.kind {
            TokenizerKind::Json(json) => Some(json.content()),
            _ => None,
        }
    }

    /// The name in reports: `bytes`, `characters`, `ids` or the name of its file.
    pub fn name(&self) -> &str {
        match &self.kind {
            TokenizerKind::Bytes => "bytes",
            TokenizerKind::Characters(_) => "characters",
            TokenizerKind::Json(json) => json.name(),
            TokenizerKind::Ids { .. } => "ids",
        }
    }

    /// The tokens of several documents in a row.
    ///
    /// Two documents are separated by the file's end-of-text token if the tokenizer has one, otherwise by a
    /// line end.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_documents(&self, documents: &[String]) -> Result<Tokens> {
        if let TokenizerKind::Bytes = self.kind {
            return Ok(Tokens::from_bytes(documents.join(SEPARATOR).into_bytes()));
        }
        let mut tokens = Vec::new();
        for (index, document) in documents.iter().enumerate() {
            if index > 0 {
                self.push_separator(&mut tokens)?;
            }
            tokens.extend(self.encode(document)?);
        }
        Ok(Tokens::from_ids(tokens))
    }

    /// For each text of several pieces its tokens, and whether each counts: it does where it holds anything of a piece that
    /// counts. A text is not cut where its pieces meet.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn encode_pieces(&self, texts: &[Vec<(String, bool)>]) -> Result<Vec<MarkedTokens>> {
        if let TokenizerKind::Json(json) = &self.kind {
            return json.encode_pieces(texts);
        }
        let marked = |pieces: &Vec<(String, bool)>| {
            let mut all = MarkedTokens::default();
            for (text, counts) in pieces {
                all.extend(self.encode(text)?, *counts);
            }
            Ok(all)
        };
        texts.iter().map(marked).collect()
    }

    /// The tokens that end a text: the token for it, otherwise a line end, of numbers none.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn ending(&self) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        self.push_separator(&mut tokens)?;
        Ok(tokens)
    }

    fn push_separator(&self, tokens: &mut Vec<u32>) -> Result<()> {
        match &self.kind {
            TokenizerKind::Json(JsonTokenizer {
                document_end: Some(end),
                ..
            }) => tokens.push(*end),
            TokenizerKind::Ids { .. } => {}
            _ => tokens.extend(self.encode(SEPARATOR)?),
        }
        Ok(())
    }
}

impl From<TokenizerKind> for Tokenizer {
    fn from(kind: TokenizerKind) -> Tokenizer {
        Tokenizer { kind, chat: None }
    }
}

/// As [`Tokenizer::encode_piece`], with what one thread has learnt of earlier texts.
pub(super) enum PieceEncoder<'t> {
    Json(Box<JsonEncoder<'t>>),
    Own(&'t Tokenizer),
}

impl PieceEncoder<'_> {
    /// The tokens of a text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub(super) fn encode(&mut self, text: &str) -> Result<Vec<u32>> {
        match self {
            PieceEncoder::Json(json) => json.encode(text),
            PieceEncoder::Own(tokenizer) => tokenizer.encode(text),
        }
    }
}

/// Tokens, and whether each counts in the loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MarkedTokens {
    pub(super) tokens: Vec<u32>,
    pub(super) counts: Vec<bool>,
}

impl MarkedTokens {
    /// Appends tokens that all count, or do not.
    pub(super) fn extend(&mut self, tokens: Vec<u32>, counts: bool) {
        self.counts.resize(self.counts.len() + tokens.len(), counts);
        self.tokens.extend(tokens);
    }
}

/// Separates documents if there is no token for it.
const SEPARATOR: &str = "\n";

fn decode_bytes(tokens: &[u32]) -> String {
    // 0xFF begins no UTF-8 character, so a token that is not a byte decodes to U+FFFD like any other invalid
    // byte.
    let bytes: Vec<u8> = tokens
        .iter()
        .map(|&token| u8::try_from(token).unwrap_or(0xFF))
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(tokens: &Tokens) -> Vec<u32> {
        let mut out = Vec::new();
        tokens.extend_into(0..tokens.len(), &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn text_survives_the_way_there_and_back(text: String) {
            let characters = Tokenizer::characters(std::slice::from_ref(&text));
            for tokenizer in [Tokenizer::bytes(), characters] {
                let tokens = tokenizer.encode(&text).unwrap();
                prop_assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocabulary_size()));
                prop_assert_eq!(tokenizer.decode(&tokens), text.clone());
            }
        }
    }

    #[test]
    fn stray_bytes_become_replacement_characters() {
        assert_eq!(
            Tokenizer::bytes().decode(&[104, 0xC3, 105, 300]),
            "h\u{fffd}i\u{fffd}"
        );
        assert_eq!(Tokenizer::bytes().vocabulary_size(), 256);
    }

    #[test]
    fn documents_are_kept_apart() {
        let documents = vec!["ab".to_owned(), "ba".to_owned()];
        let tokens = Tokenizer::bytes().encode_documents(&documents).unwrap();
        assert_eq!(all(&tokens), [97, 98, 10, 98, 97]);
        let characters = Tokenizer::characters(&documents);
        assert_eq!(
            all(&characters.encode_documents(&documents).unwrap()),
            [1, 2, 0, 2, 1]
        );
        assert_eq!(characters.vocabulary_size(), 3);
    }
}
