//! A file of pieces: its space is reserved, and each piece has a checksum.

use crate::{Disk, Scratch};
use hal::{Error, Result, error::Bytes};
use std::{
    collections::BTreeMap,
    fmt::Display,
    io,
    ops::Range,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

/// A file whose pieces are read as they were last written, or not at all.
#[derive(Debug)]
pub(crate) struct PieceFile {
    // The folder, and whose file it is: the file has no name of its own.
    label: String,
    file: Box<dyn Scratch>,
    // Kept here and not in the file, so that they also find a write that the disk has lost.
    checksums: Vec<AtomicU32>,
}

impl PieceFile {
    /// A file of zeros, with room for all pieces.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it cannot be made or the disk has no room for it, with the bytes that it needs.
    pub(crate) fn create(
        (disk, folder): (&dyn Disk, &Path),
        owner: &str,
        places: &[Range<u64>],
    ) -> Result<PieceFile> {
        let label = format!("file of {owner} in {}", folder.display());
        let bytes = places.last().map_or(0, |last| last.end);
        let refuse = |error: io::Error| {
            let needed = format!("room for {bytes} bytes ({})", Bytes(bytes as usize));
            Error::invalid(&label, error.to_string(), needed)
        };
        let file = disk.create(folder).map_err(refuse)?;
        if bytes > 0 {
            file.reserve(bytes).map_err(refuse)?;
        }
        Ok(PieceFile {
            label,
            file,
            checksums: checksums_of_zeros(places),
        })
    }

    /// Reads a piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk fails, and for bytes that are not those last written, with both checksums.
    pub(crate) fn read(&self, piece: usize, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file
            .read(bytes, offset)
            .map_err(|error| self.refuse(piece, error, "a disk that reads it"))?;
        let (found, written) = (crc32fast::hash(bytes), self.checksum(piece));
        match found == written {
            true => Ok(()),
            false => Err(self.refuse(
                piece,
                format_args!("bytes with checksum {found:08x}"),
                format!("checksum {written:08x}, that of what was written"),
            )),
        }
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk fails.
    pub(crate) fn write(&self, piece: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.checksums[piece].store(crc32fast::hash(bytes), Ordering::Relaxed);
        self.file
            .write(bytes, offset)
            .map_err(|error| self.refuse(piece, error, "a disk that writes it"))
    }

    fn checksum(&self, piece: usize) -> u32 {
        self.checksums[piece].load(Ordering::Relaxed)
    }

    fn refuse(&self, piece: usize, found: impl Display, needed: impl Into<String>) -> Error {
        let (operation, last) = (&self.label, self.checksums.len() - 1);
        let operation = format!("{operation}, piece {piece} of 0 to {last}");
        Error::invalid(operation, found.to_string(), needed)
    }
}

// Most pieces are equally long, so that few are hashed.
fn checksums_of_zeros(places: &[Range<u64>]) -> Vec<AtomicU32> {
    let mut known = BTreeMap::new();
    let of_len = |place: &Range<u64>| {
        let len = (place.end - place.start) as usize;
        let checksum = known
            .entry(len)
            .or_insert_with(|| crc32fast::hash(&vec![0; len]));
        AtomicU32::new(*checksum)
    };
    places.iter().map(of_len).collect()
}
