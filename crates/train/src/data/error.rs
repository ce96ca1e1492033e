//! What can go wrong with data, each in one sentence with its numbers.

use std::io;
use std::path::PathBuf;

/// The result of this module's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A fault of the data or of the settings that describe it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path leads nowhere.
    #[error("data: {} does not exist", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("data: {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `reading`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own word.
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
        /// The folder searched, with those below it.
        folder: PathBuf,
        /// The extensions looked for, as a sentence shows them.
        extensions: String,
        /// Files of these extensions that were not UTF-8.
        skipped: usize,
    },
    /// A text is no UTF-8.
    #[error("data: {name} is not UTF-8 at byte {position}")]
    InvalidUtf8 {
        /// The file or embedded text.
        name: String,
        /// The first byte that fits no character.
        position: usize,
    },
    /// A part cannot hold one sequence.
    #[error(
        "data: {name} holds {found} tokens ({training} training, {validation} validation), needs at least {needed} \
         (context {} + 1) in each of the training and validation parts", needed - 1
    )]
    TooShort {
        /// Where the tokens come from.
        name: String,
        /// All tokens.
        found: usize,
        /// Those of the training part.
        training: usize,
        /// Those of the validation part.
        validation: usize,
        /// What each part must hold: the context and one more.
        needed: usize,
    },
    /// A token is no entry of the vocabulary.
    #[error(
        "data: {name}: token {token} at position {position} is outside the vocabulary of {vocabulary_size}"
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
    #[error("data: {} holds {bytes} bytes, which is no multiple of {token_bytes} ({dtype} tokens)", path.display())]
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
    /// A `.bin` file does not say how wide its tokens are.
    #[error("data: {} may hold u16 or u32 tokens: set the token type", path.display())]
    TokenTypeUnknown {
        /// The token file.
        path: PathBuf,
    },
    /// A character is not in the saved table.
    #[error(
        "data: character {character:?} at position {position} is none of the {table_size} in the tokenizer's table"
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
        /// What it said.
        reason: String,
    },
    /// A setting has no meaning.
    #[error("data: {setting} is {found}, needs {needed}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        found: String,
        /// The values that make sense.
        needed: &'static str,
    },
    /// A batch was asked for places that it does not have.
    #[error(
        "data: {operation}: sequences {start}..{end} asked for, the global batch holds {global_batch}"
    )]
    BatchRange {
        /// The call.
        operation: &'static str,
        /// First place asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// Sequences in the global batch.
        global_batch: usize,
    },
}

impl Error {
    /// Wraps the system's error on `path`; a path that is not there gets the plainer [`Error::Missing`].
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
            "data: a.u16: token 300 at position 7 is outside the vocabulary of 256"
        );
    }

    #[test]
    fn a_missing_path_is_said_plainly() {
        let error = Error::io("reading", "gone.txt", io::ErrorKind::NotFound.into());
        assert_eq!(error.to_string(), "data: gone.txt does not exist");
    }
}
