//! Which checkpoints of a folder stay.

use crate::{
    Error, Reader, Result,
    disk::Disk,
    folder::{FolderKind, complete, entries, tidy},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
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

    /// The steps that stay, of complete checkpoints by ascending step.
    fn kept(&self, complete: &[(u64, PathBuf)]) -> BTreeSet<u64> {
        let steps = || complete.iter().map(|(step, _)| *step);
        let newest = steps().rev().take(self.newest.max(1));
        let regular = steps().filter(|step| self.every > 0 && step.is_multiple_of(self.every));
        let best = self.best.then(|| best(complete)).flatten();
        newest.chain(regular).chain(best).collect()
    }
}

// A checkpoint that cannot be read, or has no loss, is no candidate.
fn best(complete: &[(u64, PathBuf)]) -> Option<u64> {
    let losses = complete.iter().filter_map(|(step, path)| {
        let loss = Reader::open_exactly(path).ok()?.sections().validation_loss;
        Some((*step, loss.filter(|loss| !loss.is_nan())?))
    });
    losses
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(step, _)| step)
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
    tidy(disk, checkpoints_dir)?;
    let complete = complete(checkpoints_dir)?;
    let kept = retention.kept(&complete);
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
