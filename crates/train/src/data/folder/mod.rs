//! Token folders: the tokens of a corpus in shards, with an index and the tokenizer that made them.
//!
//! Read in this order: [`Index`] (what the folder holds, checked), `shards` (the shards as one sequence), [`TokenFolder`] (both,
//! open) and [`FolderWriter`] (a folder in the making).

mod index;
mod shards;
mod writer;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use hal::files;

use super::{Error, Result, Tokenizer, Tokens};
pub use index::{Index, Shard};
pub(super) use shards::Shards;
pub use writer::{FinishedShards, FolderWriter};

/// The file that makes a folder a token folder. A writer writes it last.
pub const INDEX_FILE: &str = "token-index.json";

/// The tokenizer, as a checkpoint stores it.
const TOKENIZER_FILE: &str = "tokenizer-saved.json";

/// Folders with fewer tokens are compared with their checksums when a run opens them.
const VERIFY_BELOW_TOKENS: u64 = 1 << 27;

/// Bytes that a verification reads at once.
const BLOCK_BYTES: usize = 1 << 20;

/// An open token folder.
#[derive(Debug)]
pub struct TokenFolder {
    path: PathBuf,
    index: Index,
    tokenizer: Tokenizer,
    shards: Shards,
}

impl TokenFolder {
    /// Whether `path` is a folder with an index.
    pub fn is_at(path: &Path) -> bool {
        path.join(INDEX_FILE).is_file()
    }

    /// Opens a folder: reads its index and tokenizer, and compares the length of every shard with the index.
    ///
    /// # Errors
    /// [`Error::TokenFolder`] for an index that does not describe a folder, a tokenizer other than the index names, and a
    /// shard that is missing or has another length; [`Error::Tokenizer`]; [`Error::Missing`] and [`Error::Io`].
    pub fn open(path: &Path) -> Result<TokenFolder> {
        let index = Index::read(path)?;
        let tokenizer = Tokenizer::load(&path.join(TOKENIZER_FILE))?;
        let found = (tokenizer.fingerprint(), tokenizer.vocabulary_size() as u64);
        if found != (index.tokenizer.fingerprint.clone(), index.vocabulary_size) {
            let reason = format!(
                "{TOKENIZER_FILE} holds a tokenizer {} of {} tokens, the index names {} of {}",
                found.0, found.1, index.tokenizer.fingerprint, index.vocabulary_size
            );
            return Err(Error::folder(path, reason));
        }
        Ok(TokenFolder {
            shards: Shards::open(path, &index)?,
            path: path.to_owned(),
            index,
            tokenizer,
        })
    }

    /// What the folder holds.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The tokenizer that made the tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Reads every shard and compares its checksum with the index and its tokens with the vocabulary. Calls `progress` with
    /// the bytes read since the last call.
    ///
    /// # Errors
    /// [`Error::TokenFolder`] with the shard, [`Error::TokenRange`], [`Error::Io`], and whatever `progress` returns.
    pub fn verify(&self, progress: impl FnMut(u64) -> Result<()>) -> Result<()> {
        verify(&self.path, &self.index, progress)
    }

    /// As [`verify`](TokenFolder::verify), if the folder is small enough that a run does not wait for it.
    pub(super) fn verify_small(&self) -> Result<()> {
        match self.index.tokens < VERIFY_BELOW_TOKENS {
            true => self.verify(|_| Ok(())),
            false => Ok(()),
        }
    }

    /// Refuses a tokenizer other than the folder's.
    pub(super) fn check_tokenizer(&self, other: &Tokenizer) -> Result<()> {
        match other.fingerprint() == self.index.tokenizer.fingerprint {
            true => Ok(()),
            false => Err(self.refuse_tokenizer(other.name())),
        }
    }

    /// The refusal of a tokenizer of this name.
    pub(super) fn refuse_tokenizer(&self, found: &str) -> Error {
        Error::OtherTokenizer {
            path: self.path.clone(),
            found: found.to_owned(),
            needed: self.index.tokenizer.name.clone(),
        }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Its tokens.
    pub(super) fn into_tokens(self) -> Tokens {
        Tokens::from_shards(self.shards)
    }
}

// Of the shards of an index in a folder, which need not hold the index yet.
fn verify(path: &Path, index: &Index, mut progress: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut ids = Vec::new();
    for shard in &index.shards {
        let at = path.join(&shard.file);
        let wrap = |error| Error::io("reading", &at, error);
        let mut file: File = files::open(&at).map_err(wrap)?;
        let mut checksum = crc32fast::Hasher::new();
        let mut position = 0;
        while position < shard.bytes {
            let wanted = (shard.bytes - position).min(BLOCK_BYTES as u64) as usize;
            let block = &mut block[..wanted];
            file.read_exact(block).map_err(wrap)?;
            checksum.update(block);
            ids.clear();
            index.token_type.extend_into(block, &mut ids);
            let outside = ids
                .iter()
                .position(|id| u64::from(*id) >= index.vocabulary_size);
            if let Some(outside) = outside {
                return Err(Error::TokenRange {
                    name: at.display().to_string(),
                    token: ids[outside],
                    position: position as usize / index.token_type.bytes() + outside,
                    vocabulary_size: index.vocabulary_size as usize,
                });
            }
            position += wanted as u64;
            progress(wanted as u64)?;
        }
        let (found, needed) = (format!("{:08x}", checksum.finalize()), &shard.crc32);
        if found != *needed {
            let reason = format!(
                "{} has the CRC-32 {found}, the index states {needed}",
                shard.file
            );
            return Err(Error::folder(path, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
