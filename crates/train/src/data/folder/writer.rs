//! A token folder in the making.
//!
//! It is written under another name, `NAME.partial`, and gets its own by a rename once every shard is on the disk, has been
//! checked, and has its line in the index. A program that is killed before that leaves nothing under the folder's own name.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{INDEX_FILE, Index, Shard, TOKENIZER_FILE, TokenFolder, index, shards::Shards};
use crate::data::{Error, Result, Tokenizer, Tokens};

const BUFFER_BYTES: usize = 1 << 20;

/// Writes tokens into shards.
#[derive(Debug)]
pub struct FolderWriter {
    folder: PartialFolder,
    index: Index,
    shard_tokens: u64,
    open: Option<OpenShard>,
}

#[derive(Debug)]
struct OpenShard {
    file: BufWriter<File>,
    checksum: crc32fast::Hasher,
    tokens: u64,
}

/// The folder under its first name, removed unless it is published.
#[derive(Debug)]
struct PartialFolder {
    path: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl FolderWriter {
    /// Begins a folder at `target`, with shards of `shard_tokens` tokens; the last may be shorter.
    ///
    /// # Errors
    /// [`Error::TokenFolder`] if there is something at `target`, or the remains of a killed program beside it; [`Error::Missing`]
    /// if the folder around it does not exist; [`Error::Io`].
    pub fn create(
        target: &Path,
        tokenizer: &Tokenizer,
        document_end: Option<u32>,
        shard_tokens: u64,
    ) -> Result<FolderWriter> {
        let folder = PartialFolder::create(target)?;
        tokenizer.save(&folder.path.join(TOKENIZER_FILE))?;
        Ok(FolderWriter {
            folder,
            index: Index::empty(tokenizer, document_end),
            shard_tokens: shard_tokens.max(1),
            open: None,
        })
    }

    /// Number of tokens written.
    pub fn num_tokens(&self) -> u64 {
        self.index.tokens
    }

    /// Writes tokens.
    ///
    /// # Errors
    /// [`Error::TokenRange`] for a token outside the tokenizer's vocabulary; [`Error::TokenFolder`] for more shards than an
    /// index may list; [`Error::Io`].
    pub fn push(&mut self, mut tokens: &[u32]) -> Result<()> {
        while !tokens.is_empty() {
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(self.folder.shard(&self.index)?),
            };
            let room = (self.shard_tokens - open.tokens).min(tokens.len() as u64) as usize;
            let (now, later) = tokens.split_at(room);
            let path = || self.folder.path.join(self.index.shard_name());
            open.write(now, &self.index, path)?;
            self.index.tokens += now.len() as u64;
            tokens = later;
            if open.tokens == self.shard_tokens {
                self.close_shard()?;
            }
        }
        Ok(())
    }

    /// Counts a document whose tokens have been written.
    pub fn end_document(&mut self) {
        self.index.documents += 1;
    }

    /// Closes the last shard, and waits until all are on the disk.
    ///
    /// # Errors
    /// [`Error::Empty`] if nothing was written; [`Error::Io`].
    pub fn finish(mut self) -> Result<FinishedShards> {
        self.close_shard()?;
        if self.index.tokens == 0 {
            return Err(Error::Empty {
                name: self.folder.target.display().to_string(),
            });
        }
        Ok(FinishedShards {
            folder: self.folder,
            index: self.index,
        })
    }

    fn close_shard(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let name = self.index.shard_name();
        let path = self.folder.path.join(&name);
        let wrap = |error| Error::io("writing", &path, error);
        let file = open
            .file
            .into_inner()
            .map_err(|error| wrap(error.into_error()))?;
        file.sync_all().map_err(wrap)?;
        self.index.shards.push(Shard {
            file: name,
            tokens: open.tokens,
            bytes: open.tokens * self.index.token_type.bytes() as u64,
            crc32: format!("{:08x}", open.checksum.finalize()),
        });
        Ok(())
    }
}

impl Index {
    // The name of the shard that follows those that it lists.
    fn shard_name(&self) -> String {
        let (number, extension) = (self.shards.len(), self.token_type.name());
        format!("tokens-{number:05}.{extension}")
    }
}

impl OpenShard {
    fn write(&mut self, tokens: &[u32], index: &Index, path: impl Fn() -> PathBuf) -> Result<()> {
        let outside = |token: &u32| u64::from(*token) >= index.vocabulary_size;
        if let Some(at) = tokens.iter().position(outside) {
            return Err(Error::TokenRange {
                name: path().display().to_string(),
                token: tokens[at],
                position: self.tokens as usize + at,
                vocabulary_size: index.vocabulary_size as usize,
            });
        }
        let bytes = index.token_type.to_bytes(tokens);
        self.checksum.update(&bytes);
        self.tokens += tokens.len() as u64;
        self.file
            .write_all(&bytes)
            .map_err(|error| Error::io("writing", path(), error))
    }
}

/// Shards that are complete and on the disk, without an index.
#[derive(Debug)]
pub struct FinishedShards {
    folder: PartialFolder,
    index: Index,
}

impl FinishedShards {
    /// What the folder holds.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The tokens, read back from the disk.
    ///
    /// # Errors
    /// As [`TokenFolder::open`].
    pub fn tokens(&self) -> Result<Tokens> {
        Shards::open(&self.folder.path, &self.index).map(Tokens::from_shards)
    }

    /// As [`TokenFolder::verify`].
    ///
    /// # Errors
    /// As [`TokenFolder::verify`].
    pub fn verify(&self, progress: impl FnMut(u64) -> Result<()>) -> Result<()> {
        super::verify(&self.folder.path, &self.index, progress)
    }

    /// Writes the index, and gives the folder its own name.
    ///
    /// # Errors
    /// [`Error::Io`], also if something has taken the name meanwhile; those of [`TokenFolder::open`].
    pub fn publish(mut self) -> Result<TokenFolder> {
        let (path, target) = (&self.folder.path, &self.folder.target);
        let index = path.join(INDEX_FILE);
        let wrap = |error| Error::io("writing", &index, error);
        let mut file = File::create_new(&index).map_err(wrap)?;
        file.write_all(&self.index.to_json()).map_err(wrap)?;
        file.sync_all().map_err(wrap)?;
        sync(&path.join(TOKENIZER_FILE))?;
        sync(path)?;
        fs::rename(path, target).map_err(|error| Error::io("renaming to", target, error))?;
        self.folder.is_published = true;
        sync(hal::files::folder(target))?;
        TokenFolder::open(target)
    }
}

impl PartialFolder {
    fn create(target: &Path) -> Result<PartialFolder> {
        let Some(name) = target.file_name() else {
            return Err(Error::folder(target, "needs the name of a new folder"));
        };
        if target.symlink_metadata().is_ok() {
            return Err(Error::folder(target, "exists already, needs a new name"));
        }
        let path = target.with_file_name(format!("{}.partial", name.to_string_lossy()));
        fs::create_dir(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::folder(
                &path,
                "exists: another program is writing it, or was killed before its end; remove it in that case",
            ),
            std::io::ErrorKind::NotFound => Error::Missing {
                path: hal::files::folder(target).to_owned(),
            },
            _ => Error::io("making the folder", &path, error),
        })?;
        Ok(PartialFolder {
            path,
            target: target.to_owned(),
            is_published: false,
        })
    }

    fn shard(&self, index: &Index) -> Result<OpenShard> {
        index::check_room(index).map_err(|reason| Error::folder(&self.target, reason))?;
        let path = self.path.join(index.shard_name());
        let file = File::create_new(&path).map_err(|error| Error::io("writing", &path, error))?;
        Ok(OpenShard {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            checksum: crc32fast::Hasher::new(),
            tokens: 0,
        })
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if !self.is_published {
            // What is left is named `.partial` and has no index: nothing reads it as a token folder.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

fn sync(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| Error::io("writing", path, error))
}
