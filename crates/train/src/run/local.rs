//! The local checkpoints of a run: when they are written, and what becomes of them when it begins and ends.
//!
//! A run has a folder of its own on every node. `local-checkpoints.json` in the run's folder says where, so that a later job
//! finds it without the configuration.

use super::{Run, RunLock};
use crate::{
    Error, Result,
    checkpoint::replace_file,
    trainer::{
        CheckpointDone, CheckpointWriter, LocalFolder, Recovery, Trainer, disk_work, recover,
    },
};
use bootstrap::{Launcher, World};
use hal::files;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const NAME: &str = "local-checkpoints.json";

/// The longest text of that name.
const MOST_BYTES: u64 = 1 << 16;

/// What `local-checkpoints.json` holds.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    folder: PathBuf,
}

impl Place {
    fn of(folder: &LocalFolder) -> Place {
        Place {
            folder: folder.path().to_owned(),
        }
    }

    fn write(&self, run_dir: &Path) -> Result<()> {
        let note = run_dir.join(NAME);
        let text = serde_json::to_vec(self).map_err(io::Error::from)?;
        replace_file(&note, &text).map_err(Error::file(&note))
    }

    fn parse(text: &[u8], note: &Path) -> Result<Place> {
        let refuse = |error| {
            let reason = format!("{error}; without this file, the run has no local checkpoints");
            Error::file(note)(io::Error::other(reason))
        };
        serde_json::from_slice(text).map_err(refuse)
    }
}

/// Writes the local checkpoints of a run beside its steps.
#[derive(Debug)]
pub(super) struct LocalCheckpoints {
    every: u64,
    folder: LocalFolder,
    writer: CheckpointWriter,
}

impl LocalCheckpoints {
    /// Those that the configuration asks for. Collective.
    ///
    /// # Errors
    /// As [`CheckpointWriter::local`]; [`Error::File`] if the run's folder refuses the note.
    pub(super) fn open(run: &Run, trainer: &Trainer) -> Result<Option<LocalCheckpoints>> {
        let (training, world) = (&run.config.training, trainer.context().world());
        let Some((every, dir)) = training.local_checkpoints() else {
            return Ok(None);
        };
        let told = disk_work::told(world, 0, || {
            let folder = dir.join(name(&run.dir)?);
            Ok(folder.to_string_lossy().into_owned().into_bytes())
        })?;
        let folder = match world.launcher() {
            // A rank that runs again alone leaves those of the run as they are.
            Launcher::Recording => run.dir.join("local"),
            _ => PathBuf::from(String::from_utf8_lossy(&told).into_owned()),
        };
        let folder = LocalFolder::new(folder);
        let writer = CheckpointWriter::local(trainer, &folder)?;
        // Once every node has its folder, and before there is anything in one.
        disk_work::all(world, || match world.rank() {
            0 => Place::of(&folder).write(&run.dir),
            _ => Ok(()),
        })?;
        Ok(Some(LocalCheckpoints {
            every,
            folder,
            writer,
        }))
    }

    /// Completes a checkpoint whose files are written, and begins the next one if it is due and no other is being made of this
    /// step. Returns one that has become complete. Collective.
    ///
    /// # Errors
    /// As [`CheckpointWriter::begin`].
    pub(super) fn after_step(
        &mut self,
        trainer: &Trainer,
        run: &Run,
        is_saved: bool,
    ) -> Result<Option<CheckpointDone>> {
        match !is_saved && trainer.next_step().is_multiple_of(self.every) {
            true => self.writer.begin(trainer, &run.attached()?),
            false => self.writer.poll(),
        }
    }

    /// Bytes of the host's memory that copies take on this rank.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.writer.buffer_bytes()
    }

    /// Removes them, because the run's own checkpoints hold its last step. Collective.
    ///
    /// # Errors
    /// Those of the exchange.
    pub(super) fn discard(mut self, world: &World, run: &Run) -> Result<()> {
        // What it could not write is of no use any more.
        match self.writer.finish() {
            Err(error @ Error::Parallel(_)) => Err(error),
            _ => disk_work::all(world, || {
                if world.local_rank() == 0 {
                    self.folder.clear();
                }
                if world.rank() == 0 {
                    let _ = fs::remove_file(run.dir.join(NAME));
                }
                Ok(())
            }),
        }
    }
}

// A name that no other run has, of the run's name and of the time.
fn name(run_dir: &Path) -> Result<String> {
    let path = run_dir.canonicalize().map_err(Error::file(run_dir))?;
    let of_run = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let of_run: String = of_run.chars().filter(plain).take(64).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    Ok(format!("fascicle-{of_run}-{now:x}"))
}

/// Whether the nodes of a run may have local checkpoints.
pub fn has_local_checkpoints(run_dir: &Path) -> bool {
    run_dir.join(NAME).exists()
}

/// Before a run is resumed: copies the newest of its local checkpoints into its folder, if that is newer than what is there.
/// Returns nothing for a run that has none. Collective.
///
/// # Errors
/// As [`recover`](fn@recover); [`Error::File`] if the note of their place cannot be read; [`Error::RunInUse`] while another program
/// writes into the folder.
pub fn recover_local(world: &World, run_dir: &Path) -> Result<Option<Recovery>> {
    let note = run_dir.join(NAME);
    let text = disk_work::told(world, 0, || match files::read(&note, MOST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        text => text.map_err(Error::file(&note)),
    })?;
    if text.is_empty() {
        return Ok(None);
    }
    // Until the copies are complete, and not longer: who resumes the run takes it anew.
    let _lock = disk_work::all(world, || match world.rank() {
        0 => RunLock::take(run_dir).map(Some),
        _ => Ok(None),
    })?;
    let folder = LocalFolder::new(Place::parse(&text, &note)?.folder);
    let recovery = recover(world, &run_dir.join("checkpoints"), &folder)?;
    disk_work::all(world, || match world.rank() {
        0 => fs::remove_file(&note).map_err(Error::file(&note)),
        _ => Ok(()),
    })?;
    Ok(Some(recovery))
}
