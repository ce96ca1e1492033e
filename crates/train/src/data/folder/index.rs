//! The index of a token folder: what it holds. Every number in it is bounded before it is used.

use std::collections::HashSet;
use std::path::Path;

use hal::files;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::INDEX_FILE;
use crate::data::{Error, Result, TokenType, Tokenizer};

const FORMAT: &str = "fascicle-tokens";

/// The version that this program writes, and the newest that it reads.
const VERSION: u64 = 1;

const MOST_BYTES: u64 = 32 << 20;
const MOST_SHARDS: usize = 1 << 16;
/// Of tokens and of documents; a petabyte of text holds fewer.
const MOST_COUNT: u64 = 1 << 50;
const MOST_NAME: usize = 64;

/// What a token folder holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    format: String,
    version: u64,
    /// How wide a token is in the shards.
    pub token_type: TokenType,
    /// All tokens are below this.
    pub vocabulary_size: u64,
    /// The tokenizer that made the tokens.
    pub tokenizer: TokenizerRecord,
    /// The token behind each document, if there is one.
    pub document_end: Option<u32>,
    /// Number of documents.
    pub documents: u64,
    /// Number of tokens in all shards.
    pub tokens: u64,
    /// The shards, in the order of their tokens.
    pub shards: Vec<Shard>,
}

/// A tokenizer by its name and by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerRecord {
    /// Its name when the folder was made.
    pub name: String,
    /// [`Tokenizer::fingerprint`].
    pub fingerprint: String,
}

/// One file of tokens: little-endian numbers without a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its name in the folder.
    pub file: String,
    /// Its number of tokens.
    pub tokens: u64,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32 of its bytes, in hexadecimal.
    pub crc32: String,
}

impl Index {
    /// The index of a folder that holds nothing yet.
    pub(super) fn empty(tokenizer: &Tokenizer, document_end: Option<u32>) -> Index {
        let vocabulary_size = tokenizer.vocabulary_size() as u64;
        Index {
            format: FORMAT.into(),
            version: VERSION,
            token_type: TokenType::of_vocabulary(vocabulary_size),
            vocabulary_size,
            tokenizer: TokenizerRecord {
                name: tokenizer.name().into(),
                fingerprint: tokenizer.fingerprint(),
            },
            document_end,
            documents: 0,
            tokens: 0,
            shards: Vec::new(),
        }
    }

    /// Reads the index of a folder.
    pub(super) fn read(folder: &Path) -> Result<Index> {
        let path = folder.join(INDEX_FILE);
        let bytes =
            files::read(&path, MOST_BYTES).map_err(|error| Error::io("reading", &path, error))?;
        let parsed = Index::parse(&bytes).and_then(|index| index.check().map(|()| index));
        parsed.map_err(|reason| Error::folder(folder, format!("{INDEX_FILE}: {reason}")))
    }

    /// The index as it is written.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // Nothing in it has a form that JSON lacks.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    // Format and version come first: of another version nothing else is known.
    fn parse(bytes: &[u8]) -> Result<Index, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let format = &value["format"];
        if format != FORMAT {
            return Err(format!("found the format {format}, needs \"{FORMAT}\""));
        }
        match value["version"].as_u64() {
            Some(1..=VERSION) => {}
            _ => {
                let found = &value["version"];
                return Err(format!("found version {found}, needs 1 to {VERSION}"));
            }
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        let within =
            |what: &str, found: u64, least: u64, most: u64| match (least..=most).contains(&found) {
                true => Ok(()),
                false => Err(format!("{what} is {found}, needs {least} to {most}")),
            };
        let width = self.token_type.bytes();
        within("vocabulary_size", self.vocabulary_size, 1, 1 << (8 * width))?;
        if let Some(end) = self.document_end {
            within("document_end", end.into(), 0, self.vocabulary_size - 1)?;
        }
        within("documents", self.documents, 0, MOST_COUNT)?;
        within("tokens", self.tokens, 1, MOST_COUNT)?;
        let shards = self.shards.len() as u64;
        within("the number of shards", shards, 1, MOST_SHARDS as u64)?;
        let (mut names, mut tokens) = (HashSet::new(), 0);
        for shard in &self.shards {
            check_name(&shard.file)?;
            if !names.insert(&shard.file) {
                return Err(format!("it lists {} twice", shard.file));
            }
            within(
                &format!("tokens of {}", shard.file),
                shard.tokens,
                1,
                MOST_COUNT,
            )?;
            let needed = shard.tokens * width as u64;
            if shard.bytes != needed {
                return Err(format!(
                    "{} has {} bytes, needs {needed} for {} tokens of {width}",
                    shard.file, shard.bytes, shard.tokens
                ));
            }
            check_checksum(&shard.crc32)?;
            // At most 2^16 addends of at most 2^50.
            tokens += shard.tokens;
        }
        match tokens == self.tokens {
            true => Ok(()),
            false => Err(format!(
                "its shards hold {tokens} tokens, needs {}",
                self.tokens
            )),
        }
    }
}

/// That an index may list one more shard.
pub(super) fn check_room(index: &Index) -> Result<(), String> {
    match index.shards.len() < MOST_SHARDS {
        true => Ok(()),
        false => Err(format!(
            "found more than {MOST_SHARDS} shards of {} tokens, needs larger ones",
            index.shards[0].tokens
        )),
    }
}

// A name must not lead out of the folder.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(is_plain);
    match is_good && !name.starts_with('.') {
        true => Ok(()),
        false => Err(format!(
            "found a shard named {:?}, needs 1 to {MOST_NAME} letters, digits, `-`, `_` and `.`, without a `.` in front",
            name.chars().take(MOST_NAME).collect::<String>()
        )),
    }
}

fn check_checksum(text: &str) -> Result<(), String> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match text.len() == 8 && text.bytes().all(is_digit) {
        true => Ok(()),
        false => Err(format!(
            "found the CRC-32 {:?}, needs 8 hexadecimal digits",
            text.chars().take(MOST_NAME).collect::<String>()
        )),
    }
}
