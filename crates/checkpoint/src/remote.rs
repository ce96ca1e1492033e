//! Checkpoints that lie outside the file system, as in an object store.
//!
//! Whatever holds them, a checkpoint there has the files of its folder under the same names. Its manifest is written last and
//! removed first, so whatever has a manifest is complete. Bytes are compared with the manifest's checksums on both ways.

use crate::{
    Assembly, Disk, Error, FileCopy, FileSystem, Inventory, Result, Retention, folder::complete,
};
use hal::sync::time::Instant;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// When the work of a store has to end: after some time, or once it is cancelled.
#[derive(Clone)]
pub struct Limit {
    end: Instant,
    seconds: u64,
    is_cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Limit {
    /// So long from now.
    pub fn after(time: Duration) -> Limit {
        Limit::or(time, || false)
    }

    /// So long from now, or sooner, once `is_cancelled` says so.
    pub fn or(time: Duration, is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Limit {
        Limit {
            end: Instant::now() + time,
            seconds: time.as_secs(),
            is_cancelled: Arc::new(is_cancelled),
        }
    }

    /// The time that is left.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub fn left(&self) -> Result<Duration, String> {
        let left = self.end.saturating_duration_since(Instant::now());
        match ((self.is_cancelled)(), left.is_zero()) {
            (true, _) => Err("it was told to end".into()),
            (false, true) => Err(self.passed()),
            (false, false) => Ok(left),
        }
    }

    /// The reason to give once the time has passed.
    pub fn passed(&self) -> String {
        format!("it was not done after {} s", self.seconds)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limit({:?})", self.left())
    }
}

/// Where copies of a run's checkpoints lie. One program at a time writes there; any number may read.
pub trait CheckpointStore: fmt::Debug + Send + Sync {
    /// How messages name it: its URL, which holds no secret.
    fn url(&self) -> &str;

    /// The steps of the complete checkpoints, ascending.
    ///
    /// # Errors
    /// [`Error::Store`] if the store refuses, or does not answer within the limit; so in the other methods.
    fn steps(&self, limit: &Limit) -> Result<Vec<u64>>;

    /// The files of a complete checkpoint.
    ///
    /// # Errors
    /// [`Error::Damaged`] if its manifest is not as it was written.
    fn inventory(&self, step: u64, limit: &Limit) -> Result<Inventory>;

    /// Copies the complete checkpoint in a folder there, and returns its bytes. It appears complete or not at all. One of the same
    /// step is replaced; if it is the same one, nothing is copied.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a file of the folder is not as it was written.
    fn push(&self, checkpoint: &Path, limit: &Limit) -> Result<u64>;

    /// Writes a file of a complete checkpoint to a copy.
    ///
    /// # Errors
    /// Those of the copy.
    fn read(&self, step: u64, copy: &mut FileCopy<'_>, limit: &Limit) -> Result<()>;

    /// Removes a checkpoint, its manifest first.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, step: u64, limit: &Limit) -> Result<()>;
}

/// Copies a checkpoint from a store into a checkpoints folder, with every byte compared with the checksums that were written;
/// the newest if no step is given. Returns its path.
///
/// # Errors
/// [`Error::NotStored`] if the store does not have it; [`Error::Damaged`] with the first difference; [`Error::Store`]; those of
/// [`Assembly`].
pub fn pull(
    store: &dyn CheckpointStore,
    step: Option<u64>,
    checkpoints_dir: &Path,
    limit: &Limit,
) -> Result<PathBuf> {
    let steps = store.steps(limit)?;
    let newest = steps.last().copied();
    let found = step.filter(|step| steps.contains(step));
    let Some(step) = found.or(newest.filter(|_| step.is_none())) else {
        return Err(Error::NotStored {
            url: store.url().to_owned(),
            step,
            newest,
        });
    };
    let inventory = store.inventory(step, limit)?;
    let disk: Arc<dyn Disk> = Arc::new(FileSystem);
    let assembly = Assembly::begin(disk.clone(), checkpoints_dir, &inventory)?;
    for file in 0..inventory.num_files() {
        let mut copy = FileCopy::of_file(&*disk, assembly.dir(), &inventory, file)?;
        store.read(step, &mut copy, limit)?;
        copy.finish()?;
    }
    assembly.commit()
}

/// Removes the checkpoints of a store that `retention` does not name, and returns their steps.
///
/// # Errors
/// [`Error::Store`].
pub fn prune_store(
    store: &dyn CheckpointStore,
    retention: &Retention,
    limit: &Limit,
) -> Result<Vec<u64>> {
    let steps = store.steps(limit)?;
    let loss = |step| store.inventory(step, limit).ok()?.validation_loss();
    let kept = retention.kept(&steps, loss);
    let surplus: Vec<u64> = steps.into_iter().filter(|s| !kept.contains(s)).collect();
    for step in &surplus {
        store.remove(*step, limit)?;
    }
    Ok(surplus)
}

/// The complete checkpoints of a folder that `retention` names, the newest first; none if there is no folder.
///
/// # Errors
/// [`Error::Io`] if it cannot be listed.
pub fn kept_checkpoints(dir: &Path, retention: &Retention) -> Result<Vec<(u64, PathBuf)>> {
    let found = match complete(dir) {
        Err(Error::Missing { .. }) => Vec::new(),
        found => found?,
    };
    let kept = retention.kept_of(&found);
    let found = found.into_iter().rev();
    Ok(found.filter(|(step, _)| kept.contains(step)).collect())
}
