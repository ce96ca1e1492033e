//! Files of tensors that no step changes, such as frozen weights: the next checkpoint gives such a file a second name.
//!
//! Whether the tensors are still the same is decided by their bytes, not by a promise, so whoever changes one gets a new file.

use crate::{
    Result,
    disk::Disk,
    folder::path_of_step,
    reader::own_length,
    shard::{Piece, ShardRecord, write_file},
    writer::Writer,
};
use std::path::{Path, PathBuf};

/// A rank's file of tensors that do not change, in a checkpoint.
#[derive(Clone, Debug)]
pub struct FrozenFile {
    // Where it is once the checkpoint is complete.
    path: PathBuf,
    record: ShardRecord,
    sum: u32,
}

impl FrozenFile {
    /// Puts a rank's pieces into the folder of a checkpoint that is being written in `checkpoints_dir`: as a second name of the
    /// file in an earlier one, if that holds the same pieces and bytes, is still there, and the file system has such names;
    /// otherwise they are written as [`write_shard_on`](crate::write_shard_on) does. What is given must not be part of the rank's
    /// other file.
    ///
    /// # Errors
    /// As [`write_shard_on`](crate::write_shard_on).
    pub fn put(
        disk: &dyn Disk,
        (checkpoints_dir, step): (&Path, u64),
        rank: usize,
        pieces: &[Piece<'_>],
        earlier: Option<&FrozenFile>,
    ) -> Result<FrozenFile> {
        let writing = Writer::dir_of_step(checkpoints_dir, step);
        let (name, sum) = (format!("frozen-{rank:05}.safetensors"), sum(pieces));
        let earlier = earlier.filter(|earlier| earlier.record.rank == rank && earlier.sum == sum);
        let linked = earlier.filter(|earlier| link(disk, &earlier.path, &writing, &earlier.record));
        let record = match linked {
            Some(earlier) => earlier.record.clone(),
            None => write_file(disk, &writing, rank, name, pieces)?,
        };
        Ok(FrozenFile {
            path: path_of_step(checkpoints_dir, step).join(record.file_name()),
            record,
            sum,
        })
    }

    /// What the checkpoint's manifest needs to know.
    pub fn record(&self) -> &ShardRecord {
        &self.record
    }
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

// Of the pieces' names, places and bytes.
fn sum(pieces: &[Piece<'_>]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces {
        let description = (piece.name, piece.dtype, piece.global_shape, &piece.index);
        hasher.update(format!("{description:?}{}", piece.layout).as_bytes());
        hasher.update(piece.bytes);
    }
    hasher.finalize()
}
