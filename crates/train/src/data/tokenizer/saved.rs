//! A tokenizer as stored in a checkpoint.

use std::fs;
use std::path::Path;

use hal::files;
use serde::{Deserialize, Serialize};

use super::{CharacterTable, ChatTemplate, JsonTokenizer, MOST_BYTES, Tokenizer, TokenizerKind};
use crate::data::{Error, Result};

/// Everything needed to rebuild the tokenizer.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    #[serde(flatten)]
    kind: SavedKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chat: Option<ChatTemplate>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum SavedKind {
    Bytes,
    Characters { table: String },
    Json { name: String, content: String },
    Ids { vocabulary_size: usize },
}

impl From<Tokenizer> for Saved {
    fn from(tokenizer: Tokenizer) -> Saved {
        let kind = match tokenizer.kind {
            TokenizerKind::Bytes => SavedKind::Bytes,
            TokenizerKind::Characters(table) => SavedKind::Characters {
                table: table.text(),
            },
            TokenizerKind::Json(json) => SavedKind::Json {
                name: json.name().to_owned(),
                content: json.content().to_owned(),
            },
            TokenizerKind::Ids { vocabulary_size } => SavedKind::Ids { vocabulary_size },
        };
        Saved {
            kind,
            chat: tokenizer.chat,
        }
    }
}

impl TryFrom<Saved> for Tokenizer {
    type Error = Error;

    fn try_from(saved: Saved) -> Result<Tokenizer> {
        let kind = match saved.kind {
            SavedKind::Bytes => TokenizerKind::Bytes,
            SavedKind::Characters { table } => {
                TokenizerKind::Characters(CharacterTable::from_text(&table)?)
            }
            SavedKind::Json { name, content } => {
                TokenizerKind::Json(JsonTokenizer::parse(&name, &content)?)
            }
            SavedKind::Ids { vocabulary_size } => TokenizerKind::Ids { vocabulary_size },
        };
        Ok(Tokenizer::from(kind).with_chat(saved.chat))
    }
}

impl Tokenizer {
    /// Writes the tokenizer to `path` as JSON, first to a file beside it and then by a rename, so that no
    /// incomplete file exists.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such folder; [`Error::Io`] if the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        let aside = path.with_extension("aside");
        let json = serde_json::to_vec(self).map_err(|error| fault(path, &error))?;
        fs::write(&aside, json).map_err(|error| Error::io("writing", &aside, error))?;
        fs::rename(&aside, path).map_err(|error| Error::io("writing", path, error))
    }

    /// Reads a file written by [`Tokenizer::save`].
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Io`], or [`Error::Tokenizer`] if the file does not describe one.
    pub fn load(path: &Path) -> Result<Tokenizer> {
        let json =
            files::read(path, MOST_BYTES).map_err(|error| Error::io("reading", path, error))?;
        serde_json::from_slice(&json).map_err(|error| fault(path, &error))
    }
}

fn fault(path: &Path, error: &serde_json::Error) -> Error {
    Error::Tokenizer {
        name: path.display().to_string(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tokenizers")]
    const WORDS: &str = r#"{"version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "the": 1}, "unk_token": "<unk>"}}"#;

    #[test]
    fn every_kind_is_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let characters = Tokenizer::characters(&["the the".to_owned()]);
        let cases = [
            (Tokenizer::bytes(), "the"),
            (characters, "the"),
            #[cfg(feature = "tokenizers")]
            (Tokenizer::json("words.json", WORDS).unwrap(), "the"),
            (Tokenizer::ids(50), "4 49"),
        ];
        for (tokenizer, text) in cases {
            tokenizer.save(&path).unwrap();
            let loaded = Tokenizer::load(&path).unwrap();
            assert_eq!(loaded.name(), tokenizer.name());
            assert_eq!(loaded.vocabulary_size(), tokenizer.vocabulary_size());
            assert_eq!(
                loaded.encode(text).unwrap(),
                tokenizer.encode(text).unwrap()
            );
        }
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left aside"
        );
    }

    #[test]
    fn a_spoilt_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), r#"{"kind":"characters","table":"ba"}"#).unwrap();
        let error = Tokenizer::load(file.path()).unwrap_err().to_string();
        assert!(
            error.contains("table of 2 characters is not sorted"),
            "{error}"
        );
        assert!(matches!(
            Tokenizer::load(Path::new("gone.json")),
            Err(Error::Missing { .. })
        ));
    }
}
