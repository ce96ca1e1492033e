//! One rank's file: boxes of global tensors.

use crate::{
    Error, Result, TensorInfo,
    boxes::{fits, num_bytes},
    disk::{Disk, FileSystem},
    element, folder,
    manifest::FileEntry,
    stream::{self, Emit, Entry, Written},
};
use grid::{IndexBox, Layout};
use hal::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A rank's piece of a tensor.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// The tensor's global name.
    pub name: &'a str,
    /// The element type.
    pub dtype: DType,
    /// Its shape, over all ranks.
    pub global_shape: &'a [usize],
    /// The axes that cut it, stored so that it can be cut for another grid.
    pub layout: &'a Layout,
    /// The elements held here.
    pub index: IndexBox,
    /// Their bytes, row-major and little-endian.
    pub bytes: &'a [u8],
}

/// The facts that rank 0 needs about a shard file; sent as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    pub(crate) rank: usize,
    pub(crate) file: FileEntry,
    pub(crate) pieces: Vec<PieceRecord>,
}

/// A [`Piece`] without its bytes, and their offset in the file once they are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// The tensor's global name.
    pub name: String,
    /// The element type.
    #[serde(with = "element::by_name")]
    pub dtype: DType,
    /// Its shape, over all ranks.
    pub global_shape: Vec<usize>,
    /// The axes that cut it.
    pub layout: Layout,
    /// The elements held here.
    pub index: IndexBox,
    /// 0 until they are written.
    pub offset: u64,
}

impl PieceRecord {
    /// The description of its tensor.
    pub(crate) fn info(&self) -> TensorInfo {
        TensorInfo {
            dtype: self.dtype,
            global_shape: self.global_shape.clone(),
            layout: self.layout.clone(),
        }
    }
}

/// Writes a rank's pieces into the folder that a [`Writer`](super::Writer) made, and syncs them.
///
/// Pieces without elements are only recorded, not stored. Replicas of other ranks' bytes must not be written:
/// every element is stored once.
///
/// # Errors
/// [`Error::Piece`] if a piece does not fit its tensor; [`Error::Grid`] if its layout has another number of dims;
/// [`Error::NoSpace`] or [`Error::Io`] if the file cannot be written, in which case the partial file is removed.
pub fn write_shard(writing_dir: &Path, rank: usize, pieces: &[Piece<'_>]) -> Result<ShardRecord> {
    write_shard_on(&FileSystem, writing_dir, rank, pieces)
}

/// As [`write_shard`], on another disk.
///
/// # Errors
/// As [`write_shard`].
pub fn write_shard_on(
    disk: &dyn Disk,
    writing_dir: &Path,
    rank: usize,
    pieces: &[Piece<'_>],
) -> Result<ShardRecord> {
    for piece in pieces {
        let needed = num_bytes(&piece.index.shape, piece.dtype);
        if needed != Some(piece.bytes.len()) {
            let needed = needed.map_or("fewer elements".into(), |needed| format!("{needed} bytes"));
            return Err(refused(
                &PieceRecord::from(piece),
                rank,
                format!("{} bytes", piece.bytes.len()),
                needed,
            ));
        }
    }
    let records = pieces.iter().map(PieceRecord::from).collect();
    write_records(disk, writing_dir, rank, records, &mut |index, emit| {
        emit(pieces[index].bytes)
    })
}

fn name_of(rank: usize) -> String {
    format!("shard-{rank:05}.safetensors")
}

impl From<&Piece<'_>> for PieceRecord {
    fn from(piece: &Piece<'_>) -> PieceRecord {
        PieceRecord {
            name: piece.name.to_owned(),
            dtype: piece.dtype,
            global_shape: piece.global_shape.to_vec(),
            layout: piece.layout.clone(),
            index: piece.index.clone(),
            offset: 0,
        }
    }
}

/// Writes the pieces that the records describe; calls `fill` for the bytes of each, by its index.
pub(crate) fn write_records(
    disk: &dyn Disk,
    writing_dir: &Path,
    rank: usize,
    pieces: Vec<PieceRecord>,
    fill: &mut dyn FnMut(usize, &mut Emit<'_>) -> Result<()>,
) -> Result<ShardRecord> {
    write_at(disk, &writing_dir.join(name_of(rank)), rank, pieces, fill)
}

/// As [`write_records`], into a file at `path`.
pub(crate) fn write_at(
    disk: &dyn Disk,
    path: &Path,
    rank: usize,
    mut pieces: Vec<PieceRecord>,
    fill: &mut dyn FnMut(usize, &mut Emit<'_>) -> Result<()>,
) -> Result<ShardRecord> {
    check(rank, &pieces)?;
    let stored: Vec<usize> = (0..pieces.len())
        .filter(|index| !pieces[*index].index.is_empty())
        .collect();
    let entries: Vec<Entry> = stored.iter().map(|index| pieces[*index].entry()).collect();
    let metadata = BTreeMap::from([("fascicle".to_owned(), description(rank, &pieces))]);
    let Written {
        bytes,
        crc32,
        offsets,
    } = stream::write(disk, path, &entries, &metadata, &mut |entry, emit| {
        let index = stored[entry];
        counted(&pieces[index], rank, emit, &mut |emit| fill(index, emit))
    })?;
    stored
        .iter()
        .zip(offsets)
        .for_each(|(index, offset)| pieces[*index].offset = offset);
    Ok(ShardRecord {
        rank,
        file: FileEntry {
            name: folder::name(path).to_owned(),
            bytes,
            crc32,
        },
        pieces,
    })
}

// Calls `fill`, and refuses another number of bytes than the piece has.
fn counted(
    piece: &PieceRecord,
    rank: usize,
    emit: &mut Emit<'_>,
    fill: &mut dyn FnMut(&mut Emit<'_>) -> Result<()>,
) -> Result<()> {
    let (needed, mut given) = (piece.entry().num_bytes(), 0);
    let refuse = |given: usize| {
        let found = format!("{given} bytes");
        Err(refused(piece, rank, found, format!("{needed} bytes")))
    };
    fill(&mut |bytes| {
        given += bytes.len();
        match given > needed {
            true => refuse(given),
            false => emit(bytes),
        }
    })?;
    match given < needed {
        true => refuse(given),
        false => Ok(()),
    }
}

impl PieceRecord {
    /// Unique within the file, because no two pieces of a tensor begin at the same element.
    fn key(&self) -> String {
        let start: Vec<_> = self.index.start.iter().map(usize::to_string).collect();
        format!("{}@{}", self.name, start.join(","))
    }

    fn entry(&self) -> Entry {
        Entry {
            key: self.key(),
            dtype: self.dtype,
            shape: self.index.shape.clone(),
        }
    }
}

/// The meaning of the keys, for readers that have only this file.
fn description(rank: usize, pieces: &[PieceRecord]) -> String {
    let piece = |piece: &PieceRecord| {
        let fields = json!({"name": piece.name, "global_shape": piece.global_shape, "start": piece.index.start});
        (piece.key(), fields)
    };
    let stored = pieces.iter().filter(|piece| !piece.index.is_empty());
    let pieces: serde_json::Map<String, Value> = stored.map(piece).collect();
    json!({"rank": rank, "pieces": pieces}).to_string()
}

fn check(rank: usize, pieces: &[PieceRecord]) -> Result<()> {
    let mut keys = BTreeSet::new();
    for piece in pieces {
        piece.layout.check(&piece.global_shape)?;
        let refuse = |found: String, needed: &str| Err(refused(piece, rank, found, needed));
        if num_bytes(&piece.global_shape, piece.dtype).is_none() {
            return refuse(
                format!("shape {:?}", piece.global_shape),
                "one whose bytes can be counted",
            );
        }
        if !fits(&piece.index, &piece.global_shape) {
            return refuse(
                "a box outside".into(),
                &format!("one within shape {:?}", piece.global_shape),
            );
        }
        if piece.name == "__metadata__" {
            return refuse("a name that safetensors files reserve".into(), "another");
        }
        if !piece.index.is_empty() && !keys.insert(piece.key()) {
            return refuse("a second piece that begins there".into(), "one");
        }
    }
    Ok(())
}

fn refused(piece: &PieceRecord, rank: usize, found: String, needed: impl Into<String>) -> Error {
    Error::Piece {
        name: piece.name.clone(),
        index: Box::new(piece.index.clone()),
        rank,
        found,
        needed: needed.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::replicated(2);
        let said = |name, start: usize, bytes: usize| {
            let index = IndexBox {
                start: vec![start, 0],
                shape: vec![2, 2],
            };
            let bytes = vec![0; bytes];
            let piece = Piece {
                name,
                dtype: DType::F32,
                global_shape: &[4, 2],
                layout: &layout,
                index,
                bytes: &bytes,
            };
            write_shard(dir.path(), 3, &[piece.clone(), piece])
                .unwrap_err()
                .to_string()
        };
        let place = |start: usize| format!("box [{start}..{}, 0..2] of rank 3: found", start + 2);
        let needed = "checkpoint: tensor w,";
        assert_eq!(
            said("w", 0, 12),
            format!("{needed} {} 12 bytes, needs 16 bytes", place(0))
        );
        assert_eq!(
            said("w", 3, 16),
            format!(
                "{needed} {} a box outside, needs one within shape [4, 2]",
                place(3)
            )
        );
        assert_eq!(
            said("w", 1, 16),
            format!(
                "{needed} {} a second piece that begins there, needs one",
                place(1)
            )
        );
        assert!(said("__metadata__", 0, 16).contains("a name that safetensors files reserve"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
