//! Data errors, each one sentence with its numbers.

use std::io;
use std::path::{Path, PathBuf};

use hal::error::{Counted, Grouped};

/// The result of this module's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A fault of the data or of its settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not exist.
    #[error("data: {} does not exist", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("data: {operation} {}: {source}", path.display())]
    Io {
        /// The attempted operation, such as `reading`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("data: {name} is empty")]
    Empty {
        /// The file, folder or embedded text.
        name: String,
    },
    /// A folder without a file to read.
    #[error(
        "data: {} holds no text file with extension {extensions} ({skipped} skipped as invalid UTF-8)",
        folder.display()
    )]
    NoFiles {
        /// The folder searched, including its subfolders.
        folder: PathBuf,
        /// The extensions searched for, as formatted in the message.
        extensions: String,
        /// Files of these extensions that were not UTF-8.
        skipped: usize,
    },
    /// A text is not UTF-8.
    #[error("data: {name} is not UTF-8 at byte {position}")]
    InvalidUtf8 {
        /// The file or embedded text.
        name: String,
        /// The position of the first invalid byte.
        position: usize,
    },
    /// A part cannot hold one sequence.
    #[error(
        "data: {name} holds {} ({} training, {} validation), needs at least {} \
         (context {} + 1) in each of the training and validation parts",
        Counted(*found, "token"), grouped(training), grouped(validation), grouped(needed), Grouped(*needed as u64 - 1)
    )]
    TooShort {
        /// Where the tokens come from.
        name: String,
        /// All tokens.
        found: usize,
        /// Tokens in the training part.
        training: usize,
        /// Tokens in the validation part.
        validation: usize,
        /// The minimum for each part: the context plus one.
        needed: usize,
    },
    /// A token file has become shorter since it was opened.
    #[error("data: {} holds {}, needs the {} that it had when it was opened", path.display(), Counted(*found as usize, "byte"), Grouped(*needed))]
    Shrunk {
        /// The token file.
        path: PathBuf,
        /// Its bytes now.
        found: u64,
        /// Its bytes when it was opened.
        needed: u64,
    },
    /// A token is outside the vocabulary.
    #[error(
        "data: {name}: token {} at position {} is outside the vocabulary of {}; set data.tokenizer.ids to the number of \
         tokens that the ids are of, as in --set data.tokenizer.ids=50257 for GPT-2's",
        Grouped((*token).into()), grouped(position), grouped(vocabulary_size)
    )]
    TokenRange {
        /// Where the tokens come from.
        name: String,
        /// The token found.
        token: u32,
        /// Its position, in tokens.
        position: usize,
        /// Tokens must be below this.
        vocabulary_size: usize,
    },
    /// A token file ends within a token.
    #[error("data: {} holds {}, which is no multiple of {token_bytes} ({dtype} tokens)", path.display(), Counted(*bytes as usize, "byte"))]
    OddLength {
        /// The token file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The size of one token.
        token_bytes: usize,
        /// The name of the token type.
        dtype: &'static str,
    },
    /// A `.bin` file does not state the size of its tokens.
    #[error("data: {} holds token ids of 16 or of 32 bits, and does not say which; add --token-type u16, as nanoGPT writes them, or --token-type u32; for ids of GPT-2's tokenizer add --set data.tokenizer.ids=50257 too", path.display())]
    TokenTypeUnknown {
        /// The token file.
        path: PathBuf,
    },
    /// A folder of tokens is broken, or cannot be written.
    #[error("data: {}: {reason}", path.display())]
    TokenFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The configuration names a tokenizer other than that of a folder of tokens.
    #[error(
        "data: {} was made with the tokenizer {needed}, found {found}; data.tokenizer may be left out", path.display()
    )]
    OtherTokenizer {
        /// The folder.
        path: PathBuf,
        /// The name of the tokenizer that was asked for.
        found: String,
        /// The name of the folder's.
        needed: String,
    },
    /// A character is not in the saved table.
    #[error(
        "data: character {character:?} at position {} is none of the {} in the tokenizer's table",
        grouped(position),
        grouped(table_size)
    )]
    UnknownCharacter {
        /// The character.
        character: char,
        /// Its position, in characters.
        position: usize,
        /// Characters in the table.
        table_size: usize,
    },
    /// A tokenizer could not be read or used.
    #[error("data: tokenizer {name}: {reason}")]
    Tokenizer {
        /// Its name or file.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A line of a file of samples is none.
    #[error("data: {name}, line {line}: {reason}")]
    Line {
        /// The file.
        name: String,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A chat template could not be read or used.
    #[error("data: chat template {name}: {reason}")]
    Template {
        /// Its file.
        name: String,
        /// The reason.
        reason: String,
    },
    /// Samples that nothing can be learnt from.
    #[error("data: {name}: {reason}")]
    Samples {
        /// Their file.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A file that cannot be tokenised.
    #[error("data: {}: {reason}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A long document cannot be cut without a change of its tokens.
    #[error(
        "data: {name}: within {} from byte {} no line end keeps the tokens of tokenizer {tokenizer} if the \
         text is cut there; --split-lines makes each line a document, --allow-cuts accepts other tokens at a cut",
        Counted(*bytes, "byte"), Grouped(*position)
    )]
    Inexact {
        /// The file.
        name: String,
        /// The first byte of the document that is not cut off yet.
        position: u64,
        /// Bytes from there in which a cut was looked for.
        bytes: usize,
        /// The tokenizer.
        tokenizer: String,
    },
    /// What was read back from a folder is not what was encoded.
    #[error(
        "data: the {} at position {} are not those of their text: what was read back differs from what was \
         written, or the tokenizer gives the same text other tokens each time",
        Counted(*num_tokens, "token"), Grouped(*first)
    )]
    Unequal {
        /// The position of the first of them.
        first: u64,
        /// Their number.
        num_tokens: usize,
    },
    /// A setting is outside of its bounds, which depend on other data.
    #[error("data: {setting} is {found}, needs {needed}")]
    Bound {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        found: String,
        /// The valid values.
        needed: String,
    },
    /// A setting is invalid.
    #[error("data: {setting} is {found}, needs {needed}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        found: String,
        /// The valid values.
        needed: &'static str,
    },
    /// A request exceeds the batch.
    #[error(
        "data: {operation}: found sequences {start}..{end}, the global batch holds {global_batch}"
    )]
    BatchRange {
        /// The call.
        operation: &'static str,
        /// First index requested.
        start: usize,
        /// One past the last.
        end: usize,
        /// Sequences in the global batch.
        global_batch: usize,
    },
}

fn grouped(number: &usize) -> Grouped {
    Grouped(*number as u64)
}

impl Error {
    pub(crate) fn line(name: &str, index: usize, reason: String) -> Error {
        Error::Line {
            name: name.to_owned(),
            line: index + 1,
            reason,
        }
    }

    pub(super) fn input(path: &Path, reason: impl Into<String>) -> Error {
        Error::Input {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    pub(super) fn folder(path: &Path, reason: impl Into<String>) -> Error {
        Error::TokenFolder {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// Wraps the system's error on `path`; a missing path becomes the simpler [`Error::Missing`].
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: io::Error,
    ) -> Error {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path },
            _ => Error::Io {
                operation,
                path,
                source,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_carry_their_numbers() {
        let error = Error::TooShort {
            name: "poem.txt".into(),
            found: 80,
            training: 72,
            validation: 8,
            needed: 129,
        };
        assert_eq!(
            error.to_string(),
            "data: poem.txt holds 80 tokens (72 training, 8 validation), needs at least 129 (context 128 + 1) \
             in each of the training and validation parts"
        );
        let error = Error::TokenRange {
            name: "a.u16".into(),
            token: 300,
            position: 7,
            vocabulary_size: 256,
        };
        assert_eq!(
            error.to_string(),
            "data: a.u16: token 300 at position 7 is outside the vocabulary of 256; set data.tokenizer.ids to the number of tokens that the ids are of, as in --set data.tokenizer.ids=50257 for GPT-2's"
        );
    }

    #[test]
    fn a_missing_path_is_said_plainly() {
        let error = Error::io("reading", "gone.txt", io::ErrorKind::NotFound.into());
        assert_eq!(error.to_string(), "data: gone.txt does not exist");
    }
}
