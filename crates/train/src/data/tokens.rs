//! A long sequence of tokens, stored as compactly as it was received.

use std::fmt;
use std::ops::Range;

use super::{Result, folder::Shards, source::TokenFile};

/// Tokens in memory, in a file or in a folder of shards; reading copies them out as `u32`.
pub struct Tokens(Store);

enum Store {
    /// One byte per token, for the byte tokenizer, so that text takes no more than its size.
    Bytes(Vec<u8>),
    Ids(Vec<u32>),
    File(TokenFile),
    Shards(Shards),
}

impl Tokens {
    /// Tokens that are bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Tokens {
        Tokens(Store::Bytes(bytes))
    }

    /// Tokens of any vocabulary.
    pub fn from_ids(ids: Vec<u32>) -> Tokens {
        Tokens(Store::Ids(ids))
    }

    /// Tokens of an open file.
    pub(super) fn from_file(file: TokenFile) -> Tokens {
        Tokens(Store::File(file))
    }

    /// Tokens of an open folder.
    pub(super) fn from_shards(shards: Shards) -> Tokens {
        Tokens(Store::Shards(shards))
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        match &self.0 {
            Store::Bytes(bytes) => bytes.len(),
            Store::Ids(ids) => ids.len(),
            Store::File(file) => file.len(),
            Store::Shards(shards) => shards.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the tokens of `range` to `out`.
    ///
    /// # Errors
    /// [`Error::Shrunk`](super::Error::Shrunk) and [`Error::Io`](super::Error::Io) from a token file or folder.
    ///
    /// # Panics
    /// When `range` ends past the tokens: the caller's bug.
    pub fn extend_into(&self, range: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        match &self.0 {
            Store::Bytes(bytes) => out.extend(bytes[range].iter().map(|&byte| u32::from(byte))),
            Store::Ids(ids) => out.extend_from_slice(&ids[range]),
            Store::File(file) => file.extend_into(range, out)?,
            Store::Shards(shards) => shards.extend_into(range, out)?,
        }
        Ok(())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Store::Bytes(_) => "bytes",
            Store::Ids(_) => "ids",
            Store::File(file) => file.dtype().name(),
            Store::Shards(shards) => shards.dtype().name(),
        };
        write!(f, "Tokens({} {kind})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stores_in_memory_read_alike() {
        let (bytes, ids) = (
            Tokens::from_bytes(vec![1, 2, 255]),
            Tokens::from_ids(vec![1, 2, 255]),
        );
        for tokens in [&bytes, &ids] {
            let mut out = vec![9];
            tokens.extend_into(1..3, &mut out).unwrap();
            assert_eq!(out, [9, 2, 255]);
            assert_eq!((tokens.len(), tokens.is_empty()), (3, false));
        }
        assert_eq!(
            format!("{bytes:?} {ids:?}"),
            "Tokens(3 bytes) Tokens(3 ids)"
        );
    }
}
