//! Which checkpoints of a folder stay.

use crate::{
    Error, Reader, Result,
    disk::Disk,
    folder::{FolderKind, complete, entries, tidy},
};
use hal::{
    lock,
    sync::{Mutex, MutexGuard},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The complete checkpoints of a folder that [`prune`] leaves: those that any of the three names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest checkpoints that stay; at least one does.
    pub newest: usize,
    /// Checkpoints whose step is a multiple of this stay for ever; 0 means none for their step alone.
    pub every: u64,
    /// Whether the one with the lowest [`validation_loss`](crate::Sections::validation_loss) stays; of equal ones, the first.
    pub best: bool,
}

impl Retention {
    /// The `newest` alone.
    pub fn newest(newest: usize) -> Retention {
        Retention {
            newest,
            every: 0,
            best: false,
        }
    }

    /// The steps that stay, of ascending ones, whose validation losses `loss` gives. It is asked only if the best stays.
    pub fn kept(&self, steps: &[u64], loss: impl Fn(u64) -> Option<f64>) -> BTreeSet<u64> {
        let all = || steps.iter().copied();
        let newest = all().rev().take(self.newest.max(1));
        let regular = all().filter(|step| self.every > 0 && step.is_multiple_of(self.every));
        let best = || {
            let losses = all().filter_map(|step| Some((step, loss(step)?)));
            let losses = losses.filter(|(_, loss)| !loss.is_nan());
            losses.min_by(|(_, one), (_, other)| one.total_cmp(other))
        };
        let best = self.best.then(best).flatten().map(|(step, _)| step);
        newest.chain(regular).chain(best).collect()
    }

    // Of complete checkpoints by ascending step. One that cannot be read, or has no loss, is not the best.
    pub(crate) fn kept_of(&self, complete: &[(u64, PathBuf)]) -> BTreeSet<u64> {
        let steps: Vec<u64> = complete.iter().map(|(step, _)| *step).collect();
        self.kept(&steps, |step| {
            let (_, path) = complete.iter().find(|(other, _)| *other == step)?;
            Reader::open_exactly(path).ok()?.sections().validation_loss
        })
    }
}

/// Checkpoints of a folder that are being read, which [`prune`] leaves whatever the rules say.
#[derive(Clone, Debug, Default)]
pub struct HeldSteps(Arc<Mutex<BTreeSet<u64>>>);

/// Holds a checkpoint until it is dropped.
#[derive(Debug)]
pub struct HeldStep {
    held: HeldSteps,
    step: u64,
}

impl HeldSteps {
    /// Holds a checkpoint, unless it is gone.
    pub fn hold(&self, checkpoint: &Path, step: u64) -> Option<HeldStep> {
        let mut steps = self.lock();
        // No removal is under way: it has the lock until the names are gone.
        checkpoint.is_dir().then(|| {
            steps.insert(step);
            HeldStep {
                held: self.clone(),
                step,
            }
        })
    }

    /// Whether a checkpoint is held.
    pub fn holds(&self, step: u64) -> bool {
        self.lock().contains(&step)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        lock(&self.0)
    }
}

impl Drop for HeldStep {
    fn drop(&mut self) {
        self.held.lock().remove(&self.step);
    }
}

/// Removes the complete checkpoints of a folder that `retention` does not name.
///
/// Also removes what a dead writer left for steps before the newest. Folders without a manifest, and everything
/// else in the folder, stay.
///
/// # Errors
/// [`Error::Missing`] if there is no such folder; [`Error::Io`] if it cannot be listed or a checkpoint cannot be
/// removed.
pub fn prune(disk: &dyn Disk, checkpoints_dir: &Path, retention: &Retention) -> Result<()> {
    prune_unheld(disk, checkpoints_dir, retention, &HeldSteps::default())
}

/// As [`prune`], but leaves those that are held.
///
/// # Errors
/// As [`prune`].
pub fn prune_unheld(
    disk: &dyn Disk,
    checkpoints_dir: &Path,
    retention: &Retention,
    held: &HeldSteps,
) -> Result<()> {
    tidy(disk, checkpoints_dir)?;
    let complete = complete(checkpoints_dir)?;
    let mut kept = retention.kept_of(&complete);
    let held = held.lock();
    kept.extend(held.iter());
    let surplus: Vec<_> = complete
        .iter()
        .filter(|(step, _)| !kept.contains(step))
        .map(|(step, path)| (path, FolderKind::Removed.path(checkpoints_dir, *step)))
        .collect();
    for (path, removed) in &surplus {
        // Renamed first, so that a half-removed folder cannot be mistaken for a checkpoint.
        disk.rename(path, removed)
            .map_err(Error::io("renaming", path))?;
    }
    drop(held);
    if !surplus.is_empty() {
        // Nor after a power cut, which might undo the renames. It would also undo that of the newest checkpoint, if its
        // writer was killed before it had synced the names.
        disk.sync_dir(checkpoints_dir)
            .map_err(Error::io("syncing", checkpoints_dir))?;
    }
    for (_, removed) in &surplus {
        disk.remove(removed)
            .map_err(Error::io("removing", removed))?;
    }
    let newest = complete.last().map_or(0, |(step, _)| *step);
    for (_, step) in entries(checkpoints_dir)?
        .iter()
        .filter(|(kind, step)| *kind == FolderKind::Writing && *step < newest)
    {
        let path = FolderKind::Writing.path(checkpoints_dir, *step);
        disk.remove(&path).map_err(Error::io("removing", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        FileSystem, Piece, Sections, Writer,
        folder::resolve,
        tests::{folder, names},
        write_shard,
    };
    use grid::{IndexBox, Layout};
    use hal::DType;
    use std::fs;

    fn keep_newest(dir: &Path, newest: usize) {
        prune(&FileSystem, dir, &Retention::newest(newest)).unwrap();
    }

    #[test]
    fn the_newest_stay() {
        let made = [
            "step-00000040",
            "step-00000080",
            "step-00000120",
            ".writing-step-00000060",
            "notes",
        ];
        let dir = folder(&made);
        fs::create_dir(dir.path().join(".writing-step-00000160")).unwrap();
        fs::create_dir(dir.path().join("step-00000010")).unwrap();
        keep_newest(dir.path(), 2);
        let kept = [
            ".writing-step-00000160",
            "notes",
            "step-00000010",
            "step-00000080",
            "step-00000120",
        ];
        assert_eq!(names(dir.path()), kept);
        keep_newest(dir.path(), 0);
        assert_eq!(
            resolve(dir.path()).unwrap(),
            dir.path().join("step-00000120")
        );
    }

    /// Writes a checkpoint with this validation loss.
    fn write(dir: &Path, step: u64, validation_loss: Option<f64>) {
        let writer = Writer::begin(dir, step).unwrap();
        let layout = Layout::replicated(1);
        let piece = Piece {
            name: "w",
            dtype: DType::F32,
            global_shape: &[1],
            layout: &layout,
            index: IndexBox::full(&[1]),
            bytes: &[0; 4],
        };
        let record = write_shard(writer.dir(), 0, &[piece]).unwrap();
        let sections = Sections {
            validation_loss,
            ..Sections::default()
        };
        writer.commit(vec![record], sections).unwrap();
    }

    // As a run does: each checkpoint, then the pruning.
    fn steps_left(retention: Retention, losses: &[Option<f64>]) -> Vec<u64> {
        let dir = tempfile::tempdir().unwrap();
        for (step, loss) in (1..).zip(losses) {
            write(dir.path(), step, *loss);
            prune(&FileSystem, dir.path(), &retention).unwrap();
        }
        let complete = complete(dir.path()).unwrap();
        complete.into_iter().map(|(step, _)| step).collect()
    }

    #[test]
    fn every_so_many_steps_stay_for_ever() {
        let retention = Retention {
            every: 3,
            ..Retention::newest(2)
        };
        assert_eq!(steps_left(retention, &[None; 10]), [3, 6, 9, 10]);
    }

    #[test]
    fn what_is_held_stays_until_it_is_let_go() {
        let (dir, held) = (tempfile::tempdir().unwrap(), HeldSteps::default());
        write(dir.path(), 1, None);
        let path = |step| crate::path_of_step(dir.path(), step);
        let hold = held.hold(&path(1), 1);
        assert!(held.hold(&path(7), 7).is_none());
        write(dir.path(), 2, None);
        let prune = || prune_unheld(&FileSystem, dir.path(), &Retention::newest(1), &held).unwrap();
        prune();
        assert!(path(1).exists());
        drop(hold);
        prune();
        assert!(!path(1).exists() && path(2).exists());
    }

    #[test]
    fn the_best_stays_until_a_better_one_comes() {
        let retention = Retention {
            best: true,
            ..Retention::newest(1)
        };
        let mut losses = vec![None, Some(3.0), Some(f64::NAN), Some(2.0), Some(2.0), None];
        assert_eq!(steps_left(retention, &losses), [4, 6]);
        losses.push(Some(1.5));
        assert_eq!(steps_left(retention, &losses), [7]);
        assert_eq!(steps_left(Retention::newest(1), &losses), [7]);
        assert_eq!(steps_left(retention, &[None, None]), [2]);
    }
}
