//! Files of little-endian numbers without a header, as written by nanoGPT's and Megatron's tools.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hal::files;
use serde::{Deserialize, Serialize};

use crate::data::{Error, Result};

/// The size of a token in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenType {
    /// Two bytes, for vocabularies up to 65,536.
    U16,
    /// Four bytes.
    U32,
}

impl TokenType {
    /// Bytes per token.
    pub fn bytes(self) -> usize {
        match self {
            TokenType::U16 => 2,
            TokenType::U32 => 4,
        }
    }

    /// `u16` or `u32`.
    pub fn name(self) -> &'static str {
        match self {
            TokenType::U16 => "u16",
            TokenType::U32 => "u32",
        }
    }

    /// The narrowest that holds the tokens of such a vocabulary.
    pub(in crate::data) fn of_vocabulary(vocabulary_size: u64) -> TokenType {
        match vocabulary_size <= 1 << 16 {
            true => TokenType::U16,
            false => TokenType::U32,
        }
    }

    /// Tokens as a file holds them; the caller has checked that they fit the type.
    pub(in crate::data) fn to_bytes(self, tokens: &[u32]) -> Vec<u8> {
        match self {
            TokenType::U16 => {
                let halves = tokens.iter().map(|&token| token as u16);
                halves.flat_map(u16::to_le_bytes).collect()
            }
            TokenType::U32 => tokens
                .iter()
                .flat_map(|token| token.to_le_bytes())
                .collect(),
        }
    }

    /// The type that a file's extension names, if any.
    pub(in crate::data) fn of_extension(path: &Path) -> Option<TokenType> {
        path.extension()?.to_str()?.parse().ok()
    }

    /// Appends the tokens in `bytes`; an incomplete token at the end is the caller's bug and is left out.
    pub(crate) fn extend_into(self, bytes: &[u8], out: &mut Vec<u32>) {
        match self {
            TokenType::U16 => {
                let (tokens, _) = bytes.as_chunks::<2>();
                out.extend(
                    tokens
                        .iter()
                        .map(|&token| u32::from(u16::from_le_bytes(token))),
                );
            }
            TokenType::U32 => {
                let (tokens, _) = bytes.as_chunks::<4>();
                out.extend(tokens.iter().map(|&token| u32::from_le_bytes(token)));
            }
        }
    }
}

impl FromStr for TokenType {
    type Err = Error;

    /// Reads `u16` or `u32`.
    ///
    /// # Errors
    /// [`Error::Setting`] for another word.
    fn from_str(text: &str) -> Result<TokenType> {
        match text {
            "u16" => Ok(TokenType::U16),
            "u32" => Ok(TokenType::U32),
            _ => Err(Error::Setting {
                setting: "token type",
                found: text.into(),
                needed: "u16 or u32",
            }),
        }
    }
}

/// An open token file. Tokens are read by position, so that a file that another program cuts short is an error.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    file: File,
    dtype: TokenType,
    len: usize,
}

impl TokenFile {
    /// Opens a file whose length is a multiple of the token's.
    pub(in crate::data) fn open(path: &Path, dtype: TokenType) -> Result<TokenFile> {
        let wrap = |error| Error::io("opening", path, error);
        let file = files::open(path).map_err(wrap)?;
        let bytes = file.metadata().map_err(wrap)?.len();
        check_length(path, bytes, dtype)?;
        Ok(TokenFile {
            path: path.to_owned(),
            file,
            dtype,
            len: bytes as usize / dtype.bytes(),
        })
    }

    /// Its number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How wide a token is.
    pub(crate) fn dtype(&self) -> TokenType {
        self.dtype
    }

    /// Appends the tokens of `range` to `out`.
    ///
    /// # Errors
    /// [`Error::Shrunk`] when the file has become shorter since it was opened; [`Error::Io`].
    ///
    /// # Panics
    /// When `range` ends past the tokens: the caller's bug.
    pub(crate) fn extend_into(&self, range: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        assert!(
            range.end <= self.len,
            "a bug: tokens {range:?} of {} are read",
            self.len
        );
        let width = self.dtype.bytes();
        let mut bytes = vec![0; range.len() * width];
        let read = self
            .file
            .read_exact_at(&mut bytes, (range.start * width) as u64);
        read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::Shrunk {
                path: self.path.clone(),
                found: self.file.metadata().map_or(0, |file| file.len()),
                needed: (self.len * width) as u64,
            },
            _ => Error::io("reading", &self.path, error),
        })?;
        self.dtype.extend_into(&bytes, out);
        Ok(())
    }
}

fn check_length(path: &Path, bytes: u64, dtype: TokenType) -> Result<()> {
    if bytes == 0 {
        return Err(Error::Empty {
            name: path.display().to_string(),
        });
    }
    if !bytes.is_multiple_of(dtype.bytes() as u64) {
        let (path, token_bytes) = (path.to_path_buf(), dtype.bytes());
        return Err(Error::OddLength {
            path,
            bytes,
            token_bytes,
            dtype: dtype.name(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn tokens(bytes: &[u8], dtype: TokenType) -> Vec<u32> {
        let tokens = TokenFile::open(file(bytes).path(), dtype).unwrap();
        let mut out = Vec::new();
        tokens.extend_into(1..tokens.len(), &mut out).unwrap();
        out
    }

    #[test]
    fn both_widths_read_little_endian() {
        assert_eq!(tokens(&[0, 0, 1, 0, 0, 1], TokenType::U16), [1, 256]);
        assert_eq!(
            tokens(&[0, 0, 0, 0, 1, 2, 0, 1], TokenType::U32),
            [0x0100_0201]
        );
    }

    #[test]
    fn lengths_are_checked() {
        let odd = TokenFile::open(file(&[1, 2, 3]).path(), TokenType::U16)
            .unwrap_err()
            .to_string();
        assert!(
            odd.ends_with("holds 3 bytes, which is no multiple of 2 (u16 tokens)"),
            "{odd}"
        );
        let empty = TokenFile::open(file(&[]).path(), TokenType::U32)
            .unwrap_err()
            .to_string();
        assert!(empty.ends_with("is empty"), "{empty}");
        assert!(matches!(
            TokenFile::open(Path::new("gone.u16"), TokenType::U16),
            Err(Error::Missing { .. })
        ));
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_open_is_an_error() {
        let file = file(&[1, 0, 2, 0, 3, 0]);
        let tokens = TokenFile::open(file.path(), TokenType::U16).unwrap();
        file.as_file().set_len(3).unwrap();
        let mut out = Vec::new();
        tokens.extend_into(0..1, &mut out).unwrap();
        let error = tokens.extend_into(0..2, &mut out).unwrap_err().to_string();
        assert!(
            error.ends_with("holds 3 bytes, needs the 6 that it had when it was opened"),
            "{error}"
        );
        assert_eq!(out, [1]);
    }

    #[test]
    fn types_have_names() {
        assert_eq!("u32".parse::<TokenType>().unwrap(), TokenType::U32);
        let error = "i32".parse::<TokenType>().unwrap_err().to_string();
        assert_eq!(error, "data: token type is i32, needs u16 or u32");
    }
}
