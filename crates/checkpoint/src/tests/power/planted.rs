//! Faults planted between the writer and the disk, each of which the scenarios must find.

use super::disk::CutDisk;
use crate::{
    disk::{Disk, Stored},
    folder::{FolderKind, MANIFEST, name},
    tests::names,
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    Nothing,
    /// Shards keep their bytes in the page cache.
    ShardsNotSynced,
    ManifestNotSynced,
    /// The names of a checkpoint's files are not synced.
    InsideNotSynced,
    /// The names of checkpoints are not synced.
    NamesNotSynced,
    /// They are synced in the next operation only, when the commit has already succeeded.
    NamesSyncedLate,
    /// They are synced by a commit, but not before the contents of others are removed.
    RemovalsNotSynced,
    /// Nor when what a dead process had started is finished.
    RepairsNotSynced,
    /// The name of the folder of all checkpoints is not synced.
    ParentNotSynced,
    /// The replaced checkpoint is removed instead of renamed.
    OldRemovedFirst,
    /// It is removed before the name of the new one is synced.
    OldRemovedBeforeSync,
    /// A checkpoint gets its name file by file.
    RenamedInPieces,
    /// A checkpoint is removed under its own name.
    RemovedInPlace,
    /// What the disk refuses counts as done.
    RefusalsHidden,
    /// What a dead process wrote is not removed.
    LeftoversKept,
}

impl Plant {
    pub const ALL: [Plant; 14] = [
        Plant::ShardsNotSynced,
        Plant::ManifestNotSynced,
        Plant::InsideNotSynced,
        Plant::NamesNotSynced,
        Plant::NamesSyncedLate,
        Plant::RemovalsNotSynced,
        Plant::RepairsNotSynced,
        Plant::ParentNotSynced,
        Plant::OldRemovedFirst,
        Plant::OldRemovedBeforeSync,
        Plant::RenamedInPieces,
        Plant::RemovedInPlace,
        Plant::RefusalsHidden,
        Plant::LeftoversKept,
    ];
}

/// The disk as the writer sees it.
#[derive(Debug)]
pub struct Planted {
    pub disk: CutDisk,
    pub plant: Plant,
    /// The folder whose sync is late, or owed to a commit.
    pub owed: Mutex<Option<PathBuf>>,
}

fn kind(path: &Path) -> Option<FolderKind> {
    FolderKind::parse(name(path)).map(|(kind, _)| kind)
}

/// The same step's folder of another kind.
fn sibling(path: &Path, kind: FolderKind) -> PathBuf {
    let (_, step) = FolderKind::parse(name(path)).unwrap();
    kind.path(path.parent().unwrap(), step)
}

impl Planted {
    fn pay(&self) -> io::Result<()> {
        let owed = match self.plant {
            Plant::NamesSyncedLate => self.owed.lock().unwrap().take(),
            _ => None,
        };
        owed.map_or(Ok(()), |path| self.disk.sync_dir(&path))
    }
}

impl Disk for Planted {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.pay()?;
        self.disk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        self.pay()?;
        let is_manifest = name(path) == MANIFEST;
        let file = self.disk.create(path)?;
        Ok(Box::new(PlantedFile {
            file,
            syncs: match self.plant {
                Plant::ShardsNotSynced => is_manifest,
                Plant::ManifestNotSynced => !is_manifest,
                _ => true,
            },
            hides: self.plant == Plant::RefusalsHidden,
        }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.pay()?;
        self.disk.link(file, name)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pay()?;
        let becomes = kind(to);
        match self.plant {
            Plant::OldRemovedFirst if becomes == Some(FolderKind::Old) => {
                return self.disk.remove(from);
            }
            Plant::RemovedInPlace if becomes == Some(FolderKind::Removed) => return Ok(()),
            Plant::RenamedInPieces if becomes == Some(FolderKind::Final) => {
                self.disk.create_dir(to)?;
                for name in names(from) {
                    // As a copy would.
                    let mut file = self.disk.create(&to.join(&name))?;
                    file.write_all(&std::fs::read(from.join(name))?)?;
                    file.sync()?;
                }
                self.disk.sync_dir(to)?;
                return self.disk.remove(from);
            }
            _ => {}
        }
        self.disk.rename(from, to)?;
        match (self.plant, becomes) {
            (Plant::OldRemovedBeforeSync, Some(FolderKind::Final)) => {
                self.disk.remove(&sibling(to, FolderKind::Old))?;
            }
            (Plant::RemovalsNotSynced, Some(FolderKind::Final))
            | (Plant::RepairsNotSynced, Some(FolderKind::Final | FolderKind::Removed)) => {
                *self.owed.lock().unwrap() = to.parent().map(Path::to_owned);
            }
            _ => {}
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pay()?;
        match (self.plant, kind(path)) {
            (Plant::RemovedInPlace, Some(FolderKind::Removed)) => {
                self.disk.remove(&sibling(path, FolderKind::Final))
            }
            (Plant::LeftoversKept, Some(_)) => Ok(()),
            _ => self.disk.remove(path),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.pay()?;
        let is_inside = kind(path) == Some(FolderKind::Writing);
        let is_names = name(path) == "checkpoints";
        let skips = match self.plant {
            Plant::InsideNotSynced => is_inside,
            Plant::NamesNotSynced => is_names,
            Plant::ParentNotSynced => !is_inside && !is_names,
            Plant::NamesSyncedLate if is_names => {
                *self.owed.lock().unwrap() = Some(path.to_owned());
                true
            }
            Plant::RemovalsNotSynced | Plant::RepairsNotSynced if is_names => {
                self.owed.lock().unwrap().take().is_none()
            }
            _ => false,
        };
        if skips {
            return Ok(());
        }
        self.disk.sync_dir(path)
    }
}

struct PlantedFile {
    file: Box<dyn Stored>,
    syncs: bool,
    hides: bool,
}

impl Write for PlantedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self.file.write(buffer) {
            Err(_) if self.hides => Ok(buffer.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stored for PlantedFile {
    fn sync(&mut self) -> io::Result<()> {
        if !self.syncs {
            return Ok(());
        }
        match self.file.sync() {
            Err(_) if self.hides => Ok(()),
            synced => synced,
        }
    }
}
