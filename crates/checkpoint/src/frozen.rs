//! Files of tensors that no step changes, such as frozen weights: the next checkpoint gives such a file a second name.

use crate::{
    Error, Result,
    disk::Disk,
    folder::path_of_step,
    local::FileCopy,
    manifest::{Manifest, Placed, TensorEntry},
    reader::{Reader, own_length},
    shard::{PieceRecord, ShardRecord, write_at},
    stream::Emit,
    writer::Writer,
};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Bytes of a file that are copied at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A rank's file of tensors that do not change, in a checkpoint.
#[derive(Clone, Debug)]
pub struct FrozenFile {
    // Where it is once the checkpoint is complete.
    path: PathBuf,
    record: ShardRecord,
}

impl FrozenFile {
    /// Writes a rank's pieces into the folder of a checkpoint that is being written in `checkpoints_dir`. What is given must not be
    /// part of the rank's other file.
    ///
    /// `fill` is called for each piece with elements, by its index, and passes on its bytes, row-major and little-endian, in as many
    /// parts as it likes: those of wide elements come first, and otherwise the order is that of the pieces.
    ///
    /// # Errors
    /// [`Error::Piece`] for another number of bytes than a piece has; those of `fill`; otherwise as
    /// [`write_shard_on`](crate::write_shard_on).
    pub fn write(
        disk: &dyn Disk,
        (checkpoints_dir, step): (&Path, u64),
        rank: usize,
        pieces: Vec<PieceRecord>,
        fill: &mut dyn FnMut(usize, &mut Emit<'_>) -> Result<()>,
    ) -> Result<FrozenFile> {
        let path = Writer::dir_of_step(checkpoints_dir, step).join(name_of(rank));
        let record = write_at(disk, &path, rank, pieces, fill)?;
        Ok(FrozenFile {
            path: path_of_step(checkpoints_dir, step).join(record.file_name()),
            record,
        })
    }

    /// A rank's file in a checkpoint that is complete, if it holds these pieces and no others.
    pub fn found(reader: &Reader, rank: usize, pieces: &[PieceRecord]) -> Option<FrozenFile> {
        let (name, Manifest { files, tensors, .. }) = (name_of(rank), &reader.manifest);
        let file = files.iter().position(|file| file.name == name)?;
        // Those without elements are not stored.
        let stored = pieces.iter().filter(|own| !own.index.is_empty()).count();
        let held = tensors.values().flat_map(|tensor| &tensor.pieces);
        if held.filter(|piece| piece.file == file).count() != stored {
            return None;
        }
        let placed = |own: &PieceRecord| {
            let is_alike = |tensor: &&TensorEntry| tensor.info == own.info();
            let tensor = tensors.get(&own.name).filter(is_alike)?;
            let is_own = |piece: &&Placed| piece.file == file && piece.index == own.index;
            let offset = match own.index.is_empty() {
                true => 0,
                false => tensor.pieces.iter().find(is_own)?.offset,
            };
            Some(PieceRecord {
                offset,
                ..own.clone()
            })
        };
        let record = ShardRecord {
            rank,
            file: files[file].clone(),
            pieces: pieces.iter().map(placed).collect::<Option<_>>()?,
        };
        Some(FrozenFile {
            path: reader.path().join(name),
            record,
        })
    }

    /// Whether it is still there, and holds these pieces of a rank.
    pub fn holds(&self, rank: usize, pieces: &[PieceRecord]) -> bool {
        let same = |own: &PieceRecord, other: &PieceRecord| {
            let offset = other.offset;
            PieceRecord {
                offset,
                ..own.clone()
            } == *other
        };
        let own = &self.record.pieces;
        let is_same = || own.iter().zip(pieces).all(|(own, other)| same(own, other));
        let is_there = own_length(&self.path).is_ok_and(|len| len == self.record.num_bytes());
        self.record.rank == rank && own.len() == pieces.len() && is_same() && is_there
    }

    /// Puts it into the folder of a later checkpoint too: under a second name, or as a copy if the file system has no such names.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the disk refuses both; [`Error::Damaged`] if it no longer is what was written.
    pub fn again(
        &self,
        disk: &dyn Disk,
        (checkpoints_dir, step): (&Path, u64),
    ) -> Result<FrozenFile> {
        let writing = Writer::dir_of_step(checkpoints_dir, step);
        if !link(disk, &self.path, &writing, &self.record) {
            self.copy(disk, &writing)?;
        }
        Ok(FrozenFile {
            path: path_of_step(checkpoints_dir, step).join(self.record.file_name()),
            record: self.record.clone(),
        })
    }

    fn copy(&self, disk: &dyn Disk, writing: &Path) -> Result<()> {
        let refuse = |error| Error::io("reading", &self.path)(error);
        let mut file = File::open(&self.path).map_err(refuse)?;
        let mut copy = FileCopy::of(disk, writing, &self.record)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match file.read(&mut buffer).map_err(refuse)? {
                0 => return copy.finish(),
                len => copy.write(&buffer[..len])?,
            }
        }
    }

    /// What the checkpoint's manifest needs to know.
    pub fn record(&self) -> &ShardRecord {
        &self.record
    }
}

fn name_of(rank: usize) -> String {
    format!("frozen-{rank:05}.safetensors")
}

/// Gives the file of a record, if `path` has its length, a second name in a folder; whether it has one.
pub(crate) fn link(disk: &dyn Disk, path: &Path, into: &Path, record: &ShardRecord) -> bool {
    // What refuses a link, refuses the bytes that are then written too, with its reason, or has no links.
    own_length(path).is_ok_and(|length| length == record.num_bytes())
        && disk.link(path, &into.join(record.file_name())).is_ok()
}

impl ShardRecord {
    /// Gives the copy of this file, that another checkpoint of the same folder holds, a second name in the one that is being
    /// written; whether it has one.
    pub fn link(&self, disk: &dyn Disk, complete: &Path, writing: &Path) -> bool {
        link(disk, &complete.join(self.file_name()), writing, self)
    }
}
