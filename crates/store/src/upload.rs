//! Writes a file to a store, in pieces.
//!
//! A piece has 8 MiB, or more for files of more than 78 GiB, because stores take at most 10,000 of them. Four are on their way at a time
//! and one is read, so a copy holds 40 MiB of a file of that size.

use crate::attempts::Failure;
use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, path::Path};
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

/// The usual length of a piece.
pub(crate) const PIECE_BYTES: u64 = 8 << 20;

/// Pieces on their way at a time.
pub(crate) const AT_A_TIME: usize = 4;

/// The most pieces that a store takes for a file.
const MOST_PIECES: u64 = 10_000;

/// A file that is copied, which has the bytes and the CRC-32 that `check` accepts.
pub(crate) struct Source<'a> {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) check: &'a (dyn Fn(u64, u32) -> checkpoint::Result<()> + Sync),
}

/// The length of the pieces of a file.
pub(crate) fn piece_bytes(file_bytes: u64) -> u64 {
    file_bytes
        .div_ceil(MOST_PIECES)
        .next_multiple_of(1 << 20)
        .max(PIECE_BYTES)
}

/// Writes a file as an object, which appears complete or not at all.
pub(crate) async fn upload(
    store: &dyn ObjectStore,
    to: &Path,
    source: &Source<'_>,
) -> Result<(), Failure> {
    let mut reading = Reading::open(source)?;
    let piece = piece_bytes(source.bytes);
    if source.bytes <= piece {
        let bytes = reading.next(piece)?;
        reading.check()?;
        store.put(to, bytes.into()).await?;
        return Ok(());
    }
    let mut upload = store.put_multipart(to).await?;
    let written = write_pieces(&mut *upload, reading, piece).await;
    if written.is_err() {
        // What has failed is reported. Pieces that stay are what a rule of the store's own removes.
        let _ = upload.abort().await;
    }
    written
}

async fn write_pieces(
    upload: &mut dyn MultipartUpload,
    mut reading: Reading<'_>,
    piece: u64,
) -> Result<(), Failure> {
    let mut sending = FuturesUnordered::new();
    loop {
        let bytes = reading.next(piece)?;
        if bytes.is_empty() {
            break;
        }
        while sending.len() >= AT_A_TIME {
            sending.next().await.transpose()?;
        }
        sending.push(upload.put_part(bytes.into()));
    }
    while let Some(sent) = sending.next().await {
        sent?;
    }
    // Before the object exists.
    reading.check()?;
    upload.complete().await?;
    Ok(())
}

/// A file with the length and the CRC-32 of what has been read of it.
struct Reading<'a> {
    source: &'a Source<'a>,
    file: io::Take<File>,
    bytes: u64,
    hasher: crc32fast::Hasher,
}

impl<'a> Reading<'a> {
    fn open(source: &'a Source<'a>) -> Result<Reading<'a>, Failure> {
        let file = File::open(&source.path).map_err(|error| failed("opening", source, error))?;
        Ok(Reading {
            source,
            // One byte more, so that a file that has grown is found.
            file: file.take(source.bytes.saturating_add(1)),
            bytes: 0,
            hasher: crc32fast::Hasher::new(),
        })
    }

    fn next(&mut self, most: u64) -> Result<Bytes, Failure> {
        let mut piece =
            Vec::with_capacity(usize::try_from(most.min(self.source.bytes)).unwrap_or(0));
        let read = (&mut self.file).take(most).read_to_end(&mut piece);
        read.map_err(|error| failed("reading", self.source, error))?;
        self.bytes += piece.len() as u64;
        self.hasher.update(&piece);
        Ok(piece.into())
    }

    fn check(self) -> Result<(), Failure> {
        Ok((self.source.check)(self.bytes, self.hasher.finalize())?)
    }
}

fn failed(operation: &'static str, source: &Source<'_>, error: io::Error) -> Failure {
    Failure::Here(checkpoint::Error::Io {
        operation,
        path: source.path.clone(),
        source: error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_more_pieces_than_a_store_takes() {
        assert_eq!(piece_bytes(0), PIECE_BYTES);
        for bytes in [1, 78 << 30, 79 << 30, 5 << 40] {
            let piece = piece_bytes(bytes);
            assert!(bytes.div_ceil(piece) <= MOST_PIECES && piece.is_multiple_of(1 << 20));
        }
        assert_eq!(piece_bytes(78 << 30), PIECE_BYTES);
    }
}
