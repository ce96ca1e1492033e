//! Writes checkpoints beside the steps that follow.
//!
//! In the step, a rank copies what it writes to the host's memory. A thread of the rank does the rest, with the threads of the
//! other ranks, over an exchange of their own. The thread owns the copy until it ends, so no step can change what is written. Of
//! frozen weights there is no copy: a checkpoint that has to write them is written within the step.

use super::{
    Trainer,
    local::{LocalFolder, LocalTarget},
    save::{CheckpointFolder, write},
    snapshot::{Snapshot, SnapshotBuffer},
    stored::Attached,
};
use crate::{
    Result,
    checkpoint::{Disk, FileSystem, HeldSteps, Retention},
};
use bootstrap::World;
use hal::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use hal::sync::thread::{Builder, JoinHandle};
use hal::sync::time::Instant;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How often a rank that waits for its thread shows that it does.
const BEAT: Duration = Duration::from_millis(250);

/// Writes the checkpoints of a run, each while the following steps run.
///
/// At most one is behind: [`begin`](CheckpointWriter::begin) waits for the one before, so that a slow disk slows the run and
/// loses no checkpoint. If this is dropped, the one behind is completed first.
#[derive(Debug)]
pub struct CheckpointWriter {
    world: World,
    // The same rank, for the thread.
    beside: World,
    target: Target,
    behind: Option<Behind>,
    // Unless the thread has it.
    buffer: SnapshotBuffer,
    buffer_bytes: usize,
}

/// A checkpoint that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointDone {
    /// Its folder.
    pub path: PathBuf,
    /// Its step.
    pub step: u64,
    /// How long this rank waited for the disk instead of training.
    pub waited: Duration,
}

/// Where checkpoints are written.
#[derive(Clone, Debug)]
enum Target {
    Shared(CheckpointFolder),
    Local(LocalTarget),
}

/// A checkpoint that [`CheckpointWriter::poll`] has not returned.
#[derive(Debug)]
struct Behind {
    step: u64,
    // How long the step has waited for it so far.
    waited: Duration,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A thread writes it. The channel sends nothing: it is disconnected when the thread ends.
    Thread(JoinHandle<Written>, Receiver<()>),
    /// It was written within the step.
    Done(Box<Written>),
}

type Written = (SnapshotBuffer, Result<PathBuf>);

impl CheckpointWriter {
    /// Writes into `dir`, and keeps the checkpoints there that `retention` names. Every rank makes one.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) if the ranks' threads cannot have an exchange.
    pub fn new(trainer: &Trainer, dir: &Path, retention: Retention) -> Result<CheckpointWriter> {
        CheckpointWriter::on(trainer, dir, retention, Arc::new(FileSystem))
    }

    /// As [`new`](CheckpointWriter::new), on another disk.
    ///
    /// # Errors
    /// As [`new`](CheckpointWriter::new).
    pub fn on(
        trainer: &Trainer,
        dir: &Path,
        retention: Retention,
        disk: Arc<dyn Disk>,
    ) -> Result<CheckpointWriter> {
        let beside = trainer.context.world().beside("checkpoints")?;
        let target = Target::Shared(CheckpointFolder {
            disk,
            dir: dir.to_owned(),
            retention,
            held: HeldSteps::default(),
        });
        Ok(CheckpointWriter::of(trainer, beside, target))
    }

    /// Writes local checkpoints: each node keeps the files of its ranks and of a partner node in `folder`, the newest checkpoint
    /// alone. What an earlier job has left there is removed: [`recover`](super::recover) comes before. Every rank makes one.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) if a node refuses the folder; as [`new`](CheckpointWriter::new).
    pub fn local(trainer: &Trainer, folder: &LocalFolder) -> Result<CheckpointWriter> {
        let beside = trainer.context.world().beside("local checkpoints")?;
        let target = Target::Local(LocalTarget::open(&beside, folder)?);
        Ok(CheckpointWriter::of(trainer, beside, target))
    }

    fn of(trainer: &Trainer, beside: World, target: Target) -> CheckpointWriter {
        CheckpointWriter {
            world: trainer.context.world().clone(),
            beside,
            target,
            behind: None,
            buffer: SnapshotBuffer::default(),
            buffer_bytes: 0,
        }
    }

    /// Copies the state after the steps done so far, and begins to write it. Waits for the checkpoint before, which it returns
    /// if there is one. Where frozen weights have to be written, as in the first checkpoint of a run, it waits for this one too.
    /// Collective.
    ///
    /// # Errors
    /// As [`finish`](CheckpointWriter::finish), for the checkpoint before; [`Error::Setting`](crate::Error::Setting) if the
    /// host lacks memory for the copy; [`Error::Parallel`](crate::Error::Parallel) from the device;
    /// [`Error::Io`](crate::Error::Io) if no thread can be started.
    pub fn begin(
        &mut self,
        trainer: &Trainer,
        attached: &Attached,
    ) -> Result<Option<CheckpointDone>> {
        let before = self.finish()?;
        let mut snapshot = Snapshot::take(trainer, attached, std::mem::take(&mut self.buffer))?;
        let (step, begun) = (snapshot.step, Instant::now());
        let (beside, target) = (self.beside.clone(), self.target.clone());
        let work = if snapshot.needs_trainer(&self.world)? {
            self.world.beat(&format!(
                "writing frozen weights: checkpoint of step {step}"
            ));
            let written = target.write(&beside, &mut snapshot, Some(trainer));
            Work::Done(Box::new((snapshot.into_buffer(), written)))
        } else {
            let (running, end) = channel();
            let thread = Builder::new().name("checkpoint".into()).spawn(move || {
                let written = target.write(&beside, &mut snapshot, None);
                drop(running);
                (snapshot.into_buffer(), written)
            })?;
            Work::Thread(thread, end)
        };
        let waited = match &work {
            Work::Thread(..) => Duration::ZERO,
            Work::Done(_) => begun.elapsed(),
        };
        self.behind = Some(Behind { step, waited, work });
        Ok(before)
    }

    /// The checkpoint behind, if it is complete; does not wait for a disk. Collective, at the end of each step.
    ///
    /// # Errors
    /// As [`finish`](CheckpointWriter::finish), as soon as a rank knows of the failure.
    pub fn poll(&mut self) -> Result<Option<CheckpointDone>> {
        let Some(behind) = &self.behind else {
            return Ok(None);
        };
        // The threads agree on the outcome before they end, so where one has ended, the others are about to.
        match self.world.everyone().any(behind.is_finished())? {
            true => self.finish(),
            false => Ok(None),
        }
    }

    /// Whether a checkpoint is behind that [`poll`](CheckpointWriter::poll) has not returned; the same on every rank.
    pub fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Waits until the checkpoint behind is complete, and returns it if there is one.
    ///
    /// # Errors
    /// As [`Trainer::save`].
    pub fn finish(&mut self) -> Result<Option<CheckpointDone>> {
        let Some(behind) = self.behind.take() else {
            return Ok(None);
        };
        let (step, begun) = (behind.step, Instant::now());
        if let Work::Thread(_, end) = &behind.work {
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(BEAT) {
                let what = format!("waiting for the disk: checkpoint of step {step}");
                self.world.beat(&what);
            }
        }
        let waited = behind.waited + begun.elapsed();
        let (buffer, written) = behind.join();
        self.buffer_bytes = self.buffer_bytes.max(buffer.num_bytes());
        self.buffer = buffer;
        Ok(Some(CheckpointDone {
            path: written?,
            step,
            waited,
        }))
    }

    /// Holds checkpoints of its folder that are being read: retention leaves them. Of local ones, nothing.
    pub fn held(&self) -> HeldSteps {
        match &self.target {
            Target::Shared(folder) => folder.held.clone(),
            Target::Local(_) => HeldSteps::default(),
        }
    }

    /// The most bytes of the host's memory that copies have taken on this rank.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

impl Target {
    fn write(
        &self,
        beside: &World,
        snapshot: &mut Snapshot,
        trainer: Option<&Trainer>,
    ) -> Result<PathBuf> {
        match self {
            Target::Shared(folder) => write(beside, snapshot, folder, trainer),
            Target::Local(local) => local.write(beside, snapshot, trainer),
        }
    }
}

impl Behind {
    fn is_finished(&self) -> bool {
        match &self.work {
            Work::Thread(thread, _) => thread.is_finished(),
            Work::Done(_) => true,
        }
    }

    fn join(self) -> Written {
        let thread = match self.work {
            Work::Thread(thread, _) => thread,
            Work::Done(written) => return *written,
        };
        let panicked = |_| {
            let reason = "a bug: the thread of a checkpoint has panicked";
            let failed = Err(std::io::Error::other(reason).into());
            (SnapshotBuffer::default(), failed)
        };
        thread.join().unwrap_or_else(panicked)
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if let Some(behind) = self.behind.take() {
            // Whoever drops this without `finish` returns an error of its own.
            let _ = behind.join();
        }
    }
}
