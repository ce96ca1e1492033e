//! The tokenizer that a configuration requests.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ChatTemplate, MOST_BYTES, SEPARATOR, Tokenizer};
use crate::{
    checkpoint::Reader,
    data::{Content, Error, Result, Sample, text},
};

/// The tokenizer to make; the character table and the file are read only when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerChoice {
    /// One token per byte.
    #[default]
    Bytes,
    /// One token per character, using the characters of the data.
    Characters,
    /// A `tokenizer.json` file, with the chat template that lies beside it.
    File(PathBuf),
    /// Numbers of a token file, with this vocabulary.
    Ids(usize),
    /// That of a checkpoint, or of the newest one of a run.
    Checkpoint(PathBuf),
}

impl TokenizerChoice {
    /// Makes the tokenizer, using `content` if it depends on the data. A token folder brings its own, and refuses any other
    /// than it and the default.
    ///
    /// # Errors
    /// [`Error::OtherTokenizer`] from a token folder; [`Error::Setting`] for characters without text, or an empty vocabulary; [`Error::Missing`], [`Error::Io`] and
    /// [`Error::Tokenizer`] from the file.
    pub fn build(&self, content: &Content) -> Result<Tokenizer> {
        match (self, content) {
            (TokenizerChoice::Characters, Content::Text(text)) => {
                Ok(Tokenizer::characters(&text.documents))
            }
            (TokenizerChoice::Characters, Content::Samples { samples, .. }) => {
                let texts = samples.iter().flat_map(Sample::texts).map(str::to_owned);
                let ending = std::iter::once(SEPARATOR.to_owned());
                Ok(Tokenizer::characters(
                    &texts.chain(ending).collect::<Vec<_>>(),
                ))
            }
            (TokenizerChoice::Characters, Content::Tokens { .. }) => Err(misfit(
                "characters over a token file",
                "ids, bytes or a tokenizer file",
            )),
            // The default stands for the folder's own: a configuration cannot say that it names none.
            (TokenizerChoice::Bytes, Content::Folder(folder)) => Ok(folder.tokenizer().clone()),
            (TokenizerChoice::Characters, Content::Folder(folder)) => {
                match folder.tokenizer().name() == "characters" {
                    true => Ok(folder.tokenizer().clone()),
                    false => Err(folder.refuse_tokenizer("characters")),
                }
            }
            (other, Content::Folder(folder)) => {
                let tokenizer = other.read()?;
                folder.check_tokenizer(&tokenizer)?;
                Ok(tokenizer)
            }
            (other, _) => other.read(),
        }
    }

    /// Makes a tokenizer that does not depend on the data.
    ///
    /// # Errors
    /// As [`build`](TokenizerChoice::build); [`Error::Setting`] for characters.
    pub fn read(&self) -> Result<Tokenizer> {
        match self {
            TokenizerChoice::Bytes => Ok(Tokenizer::bytes()),
            TokenizerChoice::Characters => Err(misfit("characters without a text", "one")),
            TokenizerChoice::File(path) => {
                let name = path.display().to_string();
                let json = text(path, MOST_BYTES)?;
                Ok(Tokenizer::json(&name, &json)?.with_chat(ChatTemplate::beside(path)?))
            }
            TokenizerChoice::Ids(0) => Err(misfit("ids of 0 tokens", "a vocabulary of at least 1")),
            TokenizerChoice::Ids(vocabulary_size) => Ok(Tokenizer::ids(*vocabulary_size)),
            TokenizerChoice::Checkpoint(path) => stored(path),
        }
    }
}

fn stored(path: &Path) -> Result<Tokenizer> {
    let fault = |reason: String| Error::Tokenizer {
        name: path.display().to_string(),
        reason,
    };
    let reader = Reader::open(path).map_err(|error| fault(error.to_string()))?;
    let tokenizer = reader.sections().tokenizer.clone();
    serde_json::from_value(tokenizer).map_err(|error| fault(error.to_string()))
}

fn misfit(found: &str, needed: &'static str) -> Error {
    Error::Setting {
        setting: "tokenizer",
        found: found.to_owned(),
        needed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Source, Tokens};

    #[test]
    fn each_choice_makes_its_tokenizer() {
        let content = Source::Embedded(b"abba".to_vec()).read().unwrap();
        let sizes = [
            TokenizerChoice::Bytes,
            TokenizerChoice::Characters,
            TokenizerChoice::Ids(9),
        ]
        .map(|choice| choice.build(&content).unwrap().vocabulary_size());
        assert_eq!(sizes, [256, 2, 9]);
        let gone = TokenizerChoice::File("gone.json".into()).build(&content);
        assert!(matches!(gone, Err(Error::Missing { .. })));
    }

    #[test]
    fn choices_without_sense_are_refused() {
        let content = Content::Tokens {
            name: "a.u16".into(),
            tokens: Tokens::from_ids(vec![1]),
        };
        let error = TokenizerChoice::Characters
            .build(&content)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "data: tokenizer is characters over a token file, needs ids, bytes or a tokenizer file"
        );
        assert!(TokenizerChoice::Ids(0).build(&content).is_err());
    }
}
