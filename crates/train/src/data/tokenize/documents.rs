//! The documents of a file, in parts as they are read.

use std::fs::File;
use std::io::{self, BufReader, Read};

use hal::files;

use super::inputs::{Format, TokenizeInput};
use super::{TokenizeOptions, json_lines, parquet, text, zstd};
use crate::data::{Error, Result};

const BUFFER_BYTES: usize = 1 << 18;

/// The longest line, and the longest cell of a table.
pub(super) const MOST_DOCUMENT_BYTES: usize = 64 << 20;

/// A part of a document.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) text: &'a str,
    /// Whether it begins the document.
    pub(super) begins: bool,
    /// Whether the document ends with it.
    pub(super) ends: bool,
    /// Of a document of several parts, the hash of the whole.
    pub(super) hash: Option<u128>,
}

impl<'a> Part<'a> {
    /// A whole document.
    pub(super) fn whole(text: &'a str) -> Part<'a> {
        Part {
            text,
            begins: true,
            ends: true,
            hash: None,
        }
    }
}

/// Takes a part, and returns whether it wants more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Part<'_>) -> Result<bool>;

/// What was left out.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// Files of folders that are not UTF-8.
    pub(super) files: u64,
    /// Cells of tables without a value.
    pub(super) empty: u64,
}

/// Hands the documents of a file to `sink`, as long as it wants more. Calls `progress` with the bytes read since the last call.
pub(super) fn read(
    input: &TokenizeInput,
    options: &TokenizeOptions,
    skipped: &mut Skipped,
    progress: &dyn Fn(u64),
    sink: Sink<'_>,
) -> Result<()> {
    match input.format {
        Format::Text => text::read(input, options.splits_lines, skipped, progress, sink),
        Format::JsonLines => json_lines::read(input, &options.field, progress, sink),
        Format::Parquet => parquet::read(input, &options.field, skipped, progress, sink),
    }
}

/// The bytes of a file, decompressed.
pub(super) fn open<'a>(
    input: &TokenizeInput,
    progress: &'a dyn Fn(u64),
) -> Result<Box<dyn Read + 'a>> {
    let file =
        files::open(&input.path).map_err(|error| Error::io("opening", &input.path, error))?;
    let counted = BufReader::with_capacity(BUFFER_BYTES, Counted { file, progress });
    Ok(match input.is_compressed {
        true => Box::new(zstd::Frames::new(counted)),
        false => Box::new(counted),
    })
}

struct Counted<'a> {
    file: File,
    progress: &'a dyn Fn(u64),
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}
