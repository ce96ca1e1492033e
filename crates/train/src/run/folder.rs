//! The run's folder: who may write into it, and the configuration in it.

use super::{Run, has_local_checkpoints, resume};
use crate::{
    Error, Result,
    checkpoint::{self, FileSystem, Reader, create_folder, replace_file, sync_name},
};
use std::{
    fs::{File, TryLockError},
    path::Path,
};

/// Keeps a run's folder from other programs as long as it lives.
///
/// A file system without locks, as some network file systems are, grants it to all.
#[derive(Debug)]
#[must_use = "another program may write into the folder once this is dropped"]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    pub(super) fn take(dir: &Path) -> Result<RunLock> {
        let path = dir.join(".lock");
        let file = File::create(&path).map_err(Error::file(&path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::RunInUse { path: dir.into() }),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(RunLock { _file: file }),
        }
    }

    // Why a run's folder cannot be locked, if it has a lock and another program may hold it.
    fn refusal(dir: &Path) -> Option<TryLockError> {
        let file = File::open(dir.join(".lock")).ok()?;
        file.try_lock_shared().err()
    }

    /// Whether another program writes into a run's folder. A file system without locks does not tell, and the answer is yes.
    pub fn is_held(dir: &Path) -> bool {
        RunLock::refusal(dir).is_some()
    }
}

impl Run {
    /// Checks whether the run may begin: it refuses a folder that holds anything of another run, and a resumption that
    /// differs from its checkpoint in more than a run may change.
    ///
    /// # Errors
    /// [`Error::RunExists`] and [`Error::RunUnfinished`] for a folder with another run; [`Error::NotOurs`] for one with a
    /// configuration that no run wrote; [`Error::NotRecovered`] before what its nodes have kept is copied;
    /// [`Error::Mismatch`] with what differs from the checkpoint; [`Error::Checkpoint`] if the checkpoint cannot be read.
    pub fn check(&self) -> Result<()> {
        match &self.resume {
            Some(from) if from.any_change => {}
            Some(from) => {
                let run = self.with_stored_reference()?;
                resume::check(&run, &Reader::open(&from.checkpoint)?)?;
            }
            None => self.check_new(!self.restart)?,
        }
        match has_local_checkpoints(&self.dir) {
            false => Ok(()),
            true => Err(Error::NotRecovered {
                path: self.dir.clone(),
            }),
        }
    }

    /// Checks the run, creates its folder, and keeps it from other programs. One process of a job calls this, before its
    /// ranks begin.
    ///
    /// # Errors
    /// As [`check`](Run::check), and nothing is written then; [`Error::RunInUse`] while another program writes into the
    /// folder; [`Error::File`] if it cannot be created.
    pub fn prepare(&self) -> Result<RunLock> {
        // Before the folder is judged: what a running program has written so far looks like a run that ended early.
        if let Some(TryLockError::WouldBlock) = RunLock::refusal(&self.dir) {
            let path = self.dir.clone();
            return Err(Error::RunInUse { path });
        }
        self.check()?;
        let checkpoints = self.dir.join("checkpoints");
        create_folder(&FileSystem, &checkpoints).map_err(Error::file(&self.dir))?;
        let lock = RunLock::take(&self.dir)?;
        sync_name(&self.dir).map_err(Error::file(&self.dir))?;
        Ok(lock)
    }

    /// Writes config.toml, for the reader and for other runs, once the run is known to begin.
    pub(super) fn write_config(&self) -> Result<()> {
        let config = self.dir.join("config.toml");
        replace_file(&config, self.config.to_toml()?.as_bytes()).map_err(Error::file(&config))
    }

    // A new run writes into no folder that holds a checkpoint, records (unless it may restart), or somebody's configuration.
    fn check_new(&self, minds_records: bool) -> Result<()> {
        let path = || self.dir.clone();
        let checkpoints = self.dir.join("checkpoints");
        match Reader::open(&checkpoints) {
            Err(checkpoint::Error::Missing { .. } | checkpoint::Error::NoCheckpoint { .. }) => {}
            Ok(_) => return Err(Error::RunExists { path: path() }),
            Err(error) => return Err(error.into()),
        }
        if minds_records && self.dir.join("metrics.jsonl").exists() {
            return Err(Error::RunUnfinished { path: path() });
        }
        let config = self.dir.join("config.toml");
        match config.exists() && !checkpoints.exists() {
            true => Err(Error::NotOurs { path: config }),
            false => Ok(()),
        }
    }
}
