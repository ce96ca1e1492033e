//! The files to read, and their formats.

use std::fs;
use std::path::{Path, PathBuf};

use hal::files;

use crate::data::{Error, Result, TokenType, source::directory};

/// A file of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizeInput {
    /// The file.
    pub path: PathBuf,
    /// Its length, compressed if it is.
    pub bytes: u64,
    pub(super) format: Format,
    /// Whether it was found in a folder, where files that are not UTF-8 are left out.
    pub(super) is_found: bool,
    pub(super) is_compressed: bool,
}

/// How documents lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// UTF-8.
    Text,
    /// A JSON object per line.
    JsonLines,
    /// A table.
    Parquet,
}

impl TokenizeInput {
    /// The files at `paths`, in this order; of a folder those with one of these extensions, with or without `.zst` behind it,
    /// sorted by name within each folder.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Io`]; [`Error::NoFiles`] for a folder without such files; [`Error::Input`] for a file of
    /// tokens, and for a compressed table.
    pub fn find(paths: &[PathBuf], extensions: &[String]) -> Result<Vec<TokenizeInput>> {
        let mut found = Vec::new();
        for path in paths {
            let metadata = fs::metadata(path).map_err(|error| Error::io("reading", path, error))?;
            if !metadata.is_dir() {
                found.push(TokenizeInput::of(path.clone(), false)?);
                continue;
            }
            let before = found.len();
            let is_wanted = |path: &Path| directory::has_extension(&plain(path).0, extensions);
            for path in directory::files(path, &is_wanted)? {
                found.push(TokenizeInput::of(path, true)?);
            }
            if found.len() == before {
                return Err(directory::no_files(path, extensions, 0));
            }
        }
        Ok(found)
    }

    fn of(path: PathBuf, is_found: bool) -> Result<TokenizeInput> {
        let metadata = fs::metadata(&path)
            .and_then(|metadata| files::check(&metadata).map(|()| metadata))
            .map_err(|error| Error::io("reading", &path, error))?;
        let (inner, is_compressed) = plain(&path);
        let refuse = |reason: &str| Err(Error::input(&path, reason));
        let format = match inner.extension().and_then(|end| end.to_str()) {
            Some("jsonl") => Format::JsonLines,
            Some("parquet") if is_compressed => {
                return refuse(
                    "found a compressed table, needs one that is not: it compresses its columns itself",
                );
            }
            Some("parquet") => Format::Parquet,
            Some("bin") => return refuse("found tokens, needs text"),
            _ if TokenType::of_extension(&inner).is_some() => {
                return refuse("found tokens, needs text");
            }
            _ => Format::Text,
        };
        Ok(TokenizeInput {
            path,
            bytes: metadata.len(),
            format,
            is_found,
            is_compressed,
        })
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The refusal of inputs that hold no document.
pub(super) fn nothing(inputs: &[TokenizeInput]) -> Error {
    let name = match inputs {
        [one] => one.name(),
        several => format!("each of {} files", several.len()),
    };
    Error::Empty { name }
}

// The path without the extension of a compressed file, and whether it has one.
fn plain(path: &Path) -> (PathBuf, bool) {
    match path.extension().is_some_and(|end| end == "zst") {
        true => (path.with_extension(""), true),
        false => (path.to_owned(), false),
    }
}
