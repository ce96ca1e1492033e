//! From shard records to a complete checkpoint.

use crate::{
    Error, Result, Sections, ShardRecord, TensorInfo,
    disk::{Disk, FileSystem, create_folder},
    folder::{FolderKind, MANIFEST, tidy},
    manifest::{FORMAT, MOST_MANIFEST_BYTES, Manifest, Placed, TensorEntry},
    shard::PieceRecord,
};
use hal::files;
use std::{
    collections::{BTreeMap, btree_map},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A checkpoint being written, held by rank 0. If it is dropped before [`Writer::commit`], it removes what was
/// written.
#[derive(Debug)]
pub struct Writer {
    disk: Arc<dyn Disk>,
    checkpoints_dir: PathBuf,
    writing: PathBuf,
    step: u64,
    committed: bool,
}

impl Writer {
    /// Makes the hidden folder into which all ranks write the checkpoint of a step.
    ///
    /// First it removes such a folder left by a dead process, and repairs everything else that process left
    /// half done.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be created, as in a read-only place, or what a dead process left cannot be
    /// repaired.
    pub fn begin(checkpoints_dir: &Path, step: u64) -> Result<Writer> {
        Writer::begin_on(Arc::new(FileSystem), checkpoints_dir, step)
    }

    /// As [`begin`](Writer::begin), on another disk.
    ///
    /// # Errors
    /// As [`begin`](Writer::begin).
    pub fn begin_on(disk: Arc<dyn Disk>, checkpoints_dir: &Path, step: u64) -> Result<Writer> {
        create_folder(&*disk, checkpoints_dir).map_err(Error::io("making", checkpoints_dir))?;
        tidy(&*disk, checkpoints_dir)?;
        let writing = FolderKind::Writing.path(checkpoints_dir, step);
        disk.remove(&writing)
            .map_err(Error::io("removing", &writing))?;
        disk.create_dir(&writing)
            .map_err(Error::io("making", &writing))?;
        Ok(Writer {
            disk,
            checkpoints_dir: checkpoints_dir.to_owned(),
            writing,
            step,
            committed: false,
        })
    }

    /// The folder to pass to [`write_shard`](crate::write_shard).
    pub fn dir(&self) -> &Path {
        &self.writing
    }

    /// The same folder, for ranks that do not hold the writer.
    pub fn dir_of_step(checkpoints_dir: &Path, step: u64) -> PathBuf {
        FolderKind::Writing.path(checkpoints_dir, step)
    }

    /// Completes the checkpoint and gives it its name; replaces one of the same step.
    ///
    /// Until the new one is in place, readers can read the one it replaces.
    ///
    /// # Errors
    /// [`Error::Disagree`] if ranks describe a tensor differently; [`Error::Tiling`] if their boxes do not tile it;
    /// [`Error::Damaged`] if a shard file does not have its full length; [`Error::NoSpace`] or [`Error::Io`] if the
    /// disk refuses, and for a manifest that no [`Reader`](crate::Reader) accepts, above 256 MiB. The written files are
    /// then removed, and existing checkpoints stay.
    pub fn commit(self, records: Vec<ShardRecord>, sections: Sections) -> Result<PathBuf> {
        let manifest = manifest(self.step, records, sections)?;
        self.commit_manifest(&manifest)
    }

    /// As [`commit`](Writer::commit), for the folder of a node that holds some of the files: the manifest lists those of all
    /// nodes, and whether they are here is not checked.
    ///
    /// # Errors
    /// As [`commit`](Writer::commit).
    pub fn commit_part(self, records: Vec<ShardRecord>, sections: Sections) -> Result<PathBuf> {
        let manifest = manifest(self.step, records, sections)?;
        self.complete(&manifest)
    }

    /// Completes the checkpoint that a manifest describes, whose files are all here.
    pub(crate) fn commit_manifest(self, manifest: &Manifest) -> Result<PathBuf> {
        self.check_files(manifest)?;
        self.complete(manifest)
    }

    fn complete(mut self, manifest: &Manifest) -> Result<PathBuf> {
        self.write_manifest(&manifest.encode())?;
        self.disk
            .sync_dir(&self.writing)
            .map_err(Error::io("syncing", &self.writing))?;
        self.put_in_place()
    }

    fn check_files(&self, manifest: &Manifest) -> Result<()> {
        manifest.files.iter().try_for_each(|file| {
            let found = fs::metadata(self.writing.join(&file.name))
                .map(|metadata| metadata.len())
                .ok();
            file.check_length(found)
                .map_err(|fault| Error::damaged(&self.writing, fault))
        })
    }

    fn write_manifest(&self, bytes: &[u8]) -> Result<()> {
        let path = self.writing.join(MANIFEST);
        files::check_length(bytes.len() as u64, MOST_MANIFEST_BYTES)
            .map_err(Error::io("writing", &path))?;
        let write = || {
            let mut file = self.disk.create(&path)?;
            file.write_all(bytes)?;
            file.sync()
        };
        write().map_err(|source| Error::writing(&path, bytes.len() as u64, 0, source))
    }

    /// The checkpoint comes into existence by a rename.
    fn put_in_place(&mut self) -> Result<PathBuf> {
        let [path, old] = [FolderKind::Final, FolderKind::Old]
            .map(|kind| kind.path(&self.checkpoints_dir, self.step));
        let replaces = path.exists();
        if replaces {
            self.disk
                .remove(&old)
                .map_err(Error::io("removing", &old))?;
            self.disk
                .rename(&path, &old)
                .map_err(Error::io("renaming", &path))?;
        }
        if let Err(source) = self.disk.rename(&self.writing, &path) {
            if replaces {
                // If this fails too, readers still find the old one under its other name.
                let _ = self.disk.rename(&old, &path);
            }
            return Err(Error::io("renaming", &self.writing)(source));
        }
        self.committed = true;
        // Before the old one goes, so that a power cut leaves one of them.
        self.disk
            .sync_dir(&self.checkpoints_dir)
            .map_err(Error::io("syncing", &self.checkpoints_dir))?;
        if replaces {
            // The new checkpoint is complete whatever happens to the old one; the next writer tries again, and
            // reports.
            let _ = self.disk.remove(&old);
        }
        Ok(path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.committed {
            // The failure that led here is reported; the next writer removes what cannot be removed now.
            let _ = self.disk.remove(&self.writing);
        }
    }
}

/// The manifest made from the records, if the ranks agree and their boxes tile every tensor.
fn manifest(step: u64, mut records: Vec<ShardRecord>, sections: Sections) -> Result<Manifest> {
    records.sort_by_key(|record| record.rank);
    let files = records.iter().map(|record| record.file.clone()).collect();
    let mut tensors = BTreeMap::new();
    for (file, record) in records.into_iter().enumerate() {
        for piece in record.pieces {
            add(&mut tensors, file, record.rank, piece)?;
        }
    }
    let tensors = tensors
        .into_iter()
        .map(|(name, (_, tensor))| (name, tensor))
        .collect();
    let manifest = Manifest {
        format: FORMAT,
        step,
        files,
        tensors,
        sections,
    };
    let tiled = manifest
        .check_tiling()
        .map_err(|(name, fault)| Error::Tiling {
            name: name.to_owned(),
            fault,
        });
    tiled.map(|()| manifest)
}

/// Adds a piece to its tensor, which is stored with the first rank that described it.
fn add(
    tensors: &mut BTreeMap<String, (usize, TensorEntry)>,
    file: usize,
    rank: usize,
    piece: PieceRecord,
) -> Result<()> {
    let PieceRecord {
        name,
        dtype,
        global_shape,
        layout,
        index,
        offset,
    } = piece;
    let info = TensorInfo {
        dtype,
        global_shape,
        layout,
    };
    let (_, tensor) = match tensors.entry(name) {
        btree_map::Entry::Vacant(entry) => entry.insert((
            rank,
            TensorEntry {
                info,
                pieces: vec![],
            },
        )),
        btree_map::Entry::Occupied(entry) => {
            let (first_rank, tensor) = entry.get();
            agree(entry.key(), (*first_rank, &tensor.info), (rank, &info))?;
            entry.into_mut()
        }
    };
    if !index.is_empty() {
        tensor.pieces.push(Placed {
            file,
            offset,
            index,
        });
    }
    Ok(())
}

fn agree(name: &str, first: (usize, &TensorInfo), second: (usize, &TensorInfo)) -> Result<()> {
    if first.1 == second.1 {
        return Ok(());
    }
    let words = |info: &TensorInfo| {
        let shape = format!("{:?}", info.global_shape);
        [
            ("dtype", info.dtype.to_string()),
            ("shape", shape),
            ("layout", info.layout.to_string()),
        ]
    };
    let mut said = words(first.1).into_iter().zip(words(second.1));
    let differs = said.find(|(one, other)| one != other);
    let ((what, one), (_, other)) =
        differs.expect("a bug: two descriptions differ in nothing that is named");
    Err(Error::Disagree {
        name: name.to_owned(),
        what,
        first: (first.0, one),
        second: (second.0, other),
    })
}
