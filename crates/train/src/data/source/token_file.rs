//! Files of little-endian numbers without a header, as written by nanoGPT's and Megatron's tools.

use std::fs::File;
use std::path::Path;
use std::str::FromStr;

use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use crate::data::{Error, Result, Tokens};

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

    /// The type that a file's extension names, if any.
    pub(super) fn of_extension(path: &Path) -> Option<TokenType> {
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

/// Maps a token file.
pub(super) fn open(path: &Path, dtype: TokenType) -> Result<Tokens> {
    let wrap = |error| Error::io("mapping", path, error);
    let file = File::open(path).map_err(wrap)?;
    check_length(path, file.metadata().map_err(wrap)?.len(), dtype)?;
    let map = map(&file).map_err(wrap)?;
    // The file may have grown or shrunk between the two checks; the mapped length counts.
    check_length(path, map.len() as u64, dtype)?;
    Ok(Tokens::from_map(map, dtype))
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

#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: a map must not change or shrink while it is read. The promise on `Source::TokenFile` states that
    // the file is not truncated or rewritten while mapped. The map is read-only and private to `Tokens`, whose
    // reads copy the bytes out and accept any bit pattern as a number.
    unsafe { Mmap::map(file) }
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
        let tokens = open(file(bytes).path(), dtype).unwrap();
        let mut out = Vec::new();
        tokens.extend_into(1..tokens.len(), &mut out);
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
        let odd = open(file(&[1, 2, 3]).path(), TokenType::U16)
            .unwrap_err()
            .to_string();
        assert!(
            odd.ends_with("holds 3 bytes, which is no multiple of 2 (u16 tokens)"),
            "{odd}"
        );
        let empty = open(file(&[]).path(), TokenType::U32)
            .unwrap_err()
            .to_string();
        assert!(empty.ends_with("is empty"), "{empty}");
        assert!(matches!(
            open(Path::new("gone.u16"), TokenType::U16),
            Err(Error::Missing { .. })
        ));
    }

    #[test]
    fn types_have_names() {
        assert_eq!("u32".parse::<TokenType>().unwrap(), TokenType::U32);
        let error = "i32".parse::<TokenType>().unwrap_err().to_string();
        assert_eq!(error, "data: token type is i32, needs u16 or u32");
    }
}
