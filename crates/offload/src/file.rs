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
    // Bytes for which it has space.
    reserved: u64,
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
        let file = disk.create(folder);
        let file = file.map_err(|error| no_room(&label, error, bytes))?;
        if bytes > 0 {
            let reserved = file.reserve(0..bytes);
            reserved.map_err(|error| no_room(&label, error, bytes))?;
        }
        Ok(PieceFile {
            label,
            file,
            reserved: bytes,
            checksums: checksums_of_zeros(places),
        })
    }

    /// Adds a piece at the end of the file, which is written before it is read.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the disk has no room for it, with the bytes that the file then needs.
    pub(crate) fn grow(&mut self, place: &Range<u64>) -> Result<()> {
        self.reserve(place.end)?;
        self.checksums.push(AtomicU32::new(0));
        Ok(())
    }

    /// Takes the space for this many bytes, if it has not been taken.
    ///
    /// # Errors
    /// As [`grow`](PieceFile::grow).
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.reserved {
            let reserved = self.file.reserve(self.reserved..bytes);
            reserved.map_err(|error| no_room(&self.label, error, bytes))?;
            self.reserved = bytes;
        }
        Ok(())
    }

    /// Pieces in the file.
    pub(crate) fn num_pieces(&self) -> usize {
        self.checksums.len()
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

fn no_room(label: &str, error: io::Error, bytes: u64) -> Error {
    let needed = format!("room for {bytes} bytes ({})", Bytes(bytes as usize));
    Error::invalid(label, error.to_string(), needed)
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
