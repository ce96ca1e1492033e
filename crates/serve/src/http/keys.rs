//! The keys with which clients prove who they are.

use sha2::{Digest, Sha256};
use std::{
    io::{Error, ErrorKind, Result},
    path::Path,
};

/// The keys that are accepted; none if everyone is.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// Everyone is accepted.
    pub fn none() -> Keys {
        Keys::default()
    }

    /// The lines of a file; empty ones do not count.
    ///
    /// # Errors
    /// For a file that cannot be read or has no key, and for a key that no header can carry.
    pub fn read(path: &Path) -> Result<Keys> {
        let text = std::fs::read_to_string(path)?;
        let lines = text.lines().map(str::trim).enumerate();
        let mut keys = Vec::new();
        for (index, key) in lines.filter(|(_, key)| !key.is_empty()) {
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                let line = index + 1;
                return Err(Error::new(
                    ErrorKind::InvalidData,
                    format!(
                        "line {line}: found a key with a space or a letter beyond ASCII, needs one without"
                    ),
                ));
            }
            keys.push(digest(key));
        }
        match keys.is_empty() {
            true => Err(Error::new(
                ErrorKind::InvalidData,
                "found no key, needs one on each line",
            )),
            false => Ok(Keys(keys)),
        }
    }

    /// Whether there is none, so that everyone is accepted.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the value of a header `Authorization` is `Bearer` with one of the keys.
    ///
    /// The time depends neither on which key it is nor on how much of one was guessed: digests are compared to their ends.
    pub(super) fn accept(&self, authorization: Option<&str>) -> bool {
        if self.is_none() {
            return true;
        }
        let words = authorization.and_then(|value| value.trim().split_once(' '));
        let Some((_, key)) = words.filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer")) else {
            return false;
        };
        let found = digest(key.trim());
        let is_found = |key: &[u8; 32]| {
            let differences = key.iter().zip(&found).fold(0, |all, (a, b)| all | (a ^ b));
            std::hint::black_box(differences) == 0
        };
        self.0.iter().filter(|key| is_found(key)).count() > 0
    }
}

// Keys are secret: their number is not.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_file_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Keys::read(&path)
        };
        let keys = read("one\n\n two \r\n").unwrap();
        for (value, accepted) in [
            (Some("Bearer one"), true),
            (Some("bearer  two "), true),
            (Some("Bearer on"), false),
            (Some("Bearer "), false),
            (Some("Basic one"), false),
            (Some("one"), false),
            (None, false),
        ] {
            assert_eq!(keys.accept(value), accepted, "{value:?}");
        }
        assert!(Keys::none().accept(None));
        assert!(read(" \n").unwrap_err().to_string().contains("no key"));
        assert!(read("a\nb c").unwrap_err().to_string().contains("line 2"));
    }
}
