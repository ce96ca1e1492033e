//! Writes snapshots to checkpoints.

use super::{
    Trainer, disk_work, frozen,
    snapshot::{Snapshot, SnapshotBuffer},
    stored::Attached,
};
use crate::{
    Error, Result,
    checkpoint::{self, Disk, FileSystem, HeldSteps, Retention, ShardRecord, Writer, path_of_step},
};
use bootstrap::{Launcher, World};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Number of checkpoints that [`Trainer::save`] keeps.
const KEPT: usize = 3;

impl Trainer {
    /// Writes a checkpoint of the steps done so far into `dir`, and keeps the three newest. Collective: ranks that hold the
    /// same shard share its writing, tensor by tensor. Returns when the checkpoint is complete;
    /// [`CheckpointWriter`](super::CheckpointWriter) writes beside the next steps.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] on a rank that cannot write, [`Error::NotFinite`] on one that holds a number that is not
    /// finite, and [`Error::Peer`] with that rank and its reason on the others; existing complete checkpoints are not
    /// touched. The same if the new one is complete and an old one cannot be removed. [`Error::Setting`] if the host lacks
    /// memory for a copy; [`Error::Parallel`] from the exchange and the device.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<PathBuf> {
        let retention = Retention::newest(KEPT);
        self.save_with(dir.as_ref(), retention, &Attached::default())
    }

    /// As [`save`](Trainer::save), but keeps those that `retention` names, and stores the program's attachments.
    ///
    /// # Errors
    /// As [`save`](Trainer::save).
    pub fn save_with(
        &self,
        dir: &Path,
        retention: Retention,
        attached: &Attached,
    ) -> Result<PathBuf> {
        let mut snapshot = Snapshot::take(self, attached, SnapshotBuffer::default())?;
        let target = CheckpointFolder {
            disk: Arc::new(FileSystem),
            dir: dir.to_owned(),
            retention,
            held: HeldSteps::default(),
        };
        write(self.context.world(), &mut snapshot, &target, Some(self))
    }
}

/// Where checkpoints are written, and which stay there.
#[derive(Clone, Debug)]
pub(super) struct CheckpointFolder {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) retention: Retention,
    pub(super) held: HeldSteps,
}

/// Writes the snapshots of all ranks as one checkpoint: it has its name once every rank's file is on disk. Frozen weights are read
/// from the trainer, unless the checkpoint before has them. Collective.
///
/// # Errors
/// As [`Trainer::save`].
pub(super) fn write(
    world: &World,
    snapshot: &mut Snapshot,
    target: &CheckpointFolder,
    trainer: Option<&Trainer>,
) -> Result<PathBuf> {
    let (rank, step) = (world.rank(), snapshot.step);
    let CheckpointFolder {
        disk,
        dir,
        retention,
        held,
    } = target;
    let writer = disk_work::all(world, || {
        snapshot.check_finite()?;
        match rank {
            0 => Ok(Some(Writer::begin_on(disk.clone(), dir, step)?)),
            _ => Ok(None),
        }
    })?;
    let files = frozen::write_files(world, snapshot, (&**disk, dir), trainer)?;
    let records: Vec<[Option<ShardRecord>; 2]> = gathered(world, &files.records())?;
    // Of a rank that runs again alone, the other ranks' files are not there.
    let writer = writer.filter(|_| world.launcher() != Launcher::Recording);
    disk_work::all(world, || {
        let Some(writer) = writer else {
            return Ok(());
        };
        let records = records.into_iter().flatten().flatten().collect();
        writer.commit(records, snapshot.sections.clone())?;
        Ok(checkpoint::prune_unheld(&**disk, dir, retention, held)?)
    })?;
    snapshot.complete(files);
    Ok(path_of_step(dir, step))
}

/// The values of all ranks, in their order. Collective.
pub(super) fn gathered<T: Serialize + DeserializeOwned>(world: &World, own: &T) -> Result<Vec<T>> {
    let refuse =
        |error: serde_json::Error| Error::setting("checkpoint record", error, "one that is JSON");
    let text = serde_json::to_vec(own).map_err(refuse)?;
    let all = world.everyone().all_gather(&text)?;
    let all = all.iter().map(|text| serde_json::from_slice(text));
    all.collect::<serde_json::Result<_>>().map_err(refuse)
}
