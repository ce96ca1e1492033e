//! The shards of a token folder as one sequence of tokens.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Index;
use crate::data::{Error, Result, TokenType, source::TokenFile};

/// The most shards that stay open; a process may often open no more than 1,024 files. Shards of a larger folder are opened for
/// each read.
const MOST_OPEN: usize = 256;

/// Shards, by the position of their first tokens.
#[derive(Debug)]
pub(in crate::data) struct Shards {
    token_type: TokenType,
    /// Where each shard begins, and where the last ends.
    starts: Vec<usize>,
    files: Vec<ShardFile>,
}

#[derive(Debug)]
enum ShardFile {
    Open(TokenFile),
    Closed(PathBuf),
}

impl Shards {
    /// Opens the shards of an index, and compares their lengths with it.
    pub(super) fn open(folder: &Path, index: &Index) -> Result<Shards> {
        let (mut starts, mut files) = (vec![0], Vec::with_capacity(index.shards.len()));
        let stays_open = index.shards.len() <= MOST_OPEN;
        let mut end = 0usize;
        for shard in &index.shards {
            let path = folder.join(&shard.file);
            let refuse = |found: String| {
                let reason = format!("{} {found}, needs {} bytes", shard.file, shard.bytes);
                Err(Error::folder(folder, reason))
            };
            let file = match TokenFile::open(&path, index.token_type) {
                Ok(file) => file,
                Err(Error::Missing { .. }) => return refuse("does not exist".into()),
                Err(Error::Empty { .. }) => return refuse("holds 0 bytes".into()),
                Err(Error::OddLength { bytes, .. }) => {
                    return refuse(format!("holds {bytes} bytes"));
                }
                Err(other) => return Err(other),
            };
            let bytes = file.len() as u64 * index.token_type.bytes() as u64;
            if bytes != shard.bytes {
                return refuse(format!("holds {bytes} bytes"));
            }
            end += file.len();
            starts.push(end);
            files.push(match stays_open {
                true => ShardFile::Open(file),
                false => ShardFile::Closed(path),
            });
        }
        Ok(Shards {
            token_type: index.token_type,
            starts,
            files,
        })
    }

    /// Their number of tokens.
    pub(in crate::data) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// How wide a token is.
    pub(in crate::data) fn dtype(&self) -> TokenType {
        self.token_type
    }

    /// Appends the tokens of `range`, of however many shards, to `out`.
    ///
    /// # Errors
    /// [`Error::Shrunk`] when a shard has become shorter since it was opened; [`Error::Missing`] and [`Error::Io`].
    ///
    /// # Panics
    /// When `range` ends past the tokens: the caller's bug.
    pub(in crate::data) fn extend_into(
        &self,
        range: Range<usize>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        assert!(
            range.end <= self.len(),
            "a bug: tokens {range:?} of {} are read",
            self.len()
        );
        let mut at = range.start;
        // The last shard that begins at or before the first token.
        let mut shard = self.starts.partition_point(|start| *start <= at) - 1;
        while at < range.end {
            let (start, end) = (self.starts[shard], self.starts[shard + 1]);
            let until = range.end.min(end);
            self.read(shard, at - start..until - start, out)?;
            (at, shard) = (until, shard + 1);
        }
        Ok(())
    }

    fn read(&self, shard: usize, range: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        match &self.files[shard] {
            ShardFile::Open(file) => file.extend_into(range, out),
            ShardFile::Closed(path) => {
                let needed = self.starts[shard + 1] - self.starts[shard];
                let file = TokenFile::open(path, self.token_type)?;
                if file.len() < needed {
                    let width = self.token_type.bytes() as u64;
                    return Err(Error::Shrunk {
                        path: path.clone(),
                        found: file.len() as u64 * width,
                        needed: needed as u64 * width,
                    });
                }
                file.extend_into(range, out)
            }
        }
    }
}
