//! Which documents were read before: a set of hashes in memory.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest, Sha256};

/// Bytes of a document's hash. Among 10^12 documents, two of 128 bits collide with a chance of 10^-15.
const HASH_BYTES: usize = 16;

/// The hash of a document that is read in parts.
#[derive(Default)]
pub(super) struct DocumentHash(Sha256);

impl DocumentHash {
    pub(super) fn of(text: &str) -> u128 {
        let mut hash = DocumentHash::default();
        hash.update(text);
        hash.finish()
    }

    pub(super) fn update(&mut self, text: &str) {
        self.0.update(text);
    }

    pub(super) fn finish(self) -> u128 {
        let hash = self.0.finalize();
        let mut bytes = [0; HASH_BYTES];
        bytes.copy_from_slice(&hash[..HASH_BYTES]);
        u128::from_le_bytes(bytes)
    }
}

/// The documents that were read.
#[derive(Default)]
pub(super) struct Seen(HashSet<u128, BuildHasherDefault<Low>>);

impl Seen {
    /// Adds a document; returns whether it is new.
    pub(super) fn insert(&mut self, hash: u128) -> bool {
        self.0.insert(hash)
    }

    /// The memory of the set: of each place 16 bytes and one that marks it, and an eighth of the places is kept free.
    pub(super) fn bytes(&self) -> u64 {
        let places = (self.0.capacity() as u64 * 8 / 7).next_power_of_two();
        match self.0.capacity() {
            0 => 0,
            _ => places * (HASH_BYTES as u64 + 1),
        }
    }
}

/// Takes half of a hash as it is.
#[derive(Default)]
struct Low(u64);

impl Hasher for Low {
    fn write(&mut self, bytes: &[u8]) {
        let (low, _) = bytes.as_chunks::<8>();
        self.0 = low.first().map_or(0, |low| u64::from_le_bytes(*low));
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_new_once_whatever_its_parts() {
        let mut seen = Seen::default();
        assert_eq!(seen.bytes(), 0);
        assert!(seen.insert(DocumentHash::of("a document")));
        let mut parts = DocumentHash::default();
        parts.update("a doc");
        parts.update("ument");
        assert!(!seen.insert(parts.finish()));
        assert!(seen.insert(DocumentHash::of("a document ")));
        for number in 0..1000u32 {
            seen.insert(DocumentHash::of(&number.to_string()));
        }
        assert_eq!(seen.bytes(), 17 * 2048);
    }
}
