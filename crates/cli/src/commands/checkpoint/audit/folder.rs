//! The folder in which an audit trains.

use crate::{
    failure::{Failure, Outcome},
    launcher,
};
use std::{fs, path::Path};
use tempfile::TempDir;
use train::run::{Run, RunLock};

/// The folder of an audit, on the first rank: removed when this is dropped, unless the user keeps it.
#[derive(Default)]
pub(super) struct Folder {
    lock: Option<RunLock>,
    temporary: Option<TempDir>,
}

impl Folder {
    /// Gives the run a folder, and keeps it from other programs.
    pub(super) fn prepare(&mut self, keep: Option<&Path>, mut run: Run) -> Outcome<Run> {
        run.dir = launcher::once(|| match keep {
            Some(dir) => Ok(dir.to_owned()),
            None => {
                let made = tempfile::Builder::new().prefix("fascicle-audit-").tempdir();
                let made =
                    made.map_err(|error| Failure::run(format!("temporary folder: {error}")))?;
                Ok(self.temporary.insert(made).path().to_owned())
            }
        })?;
        launcher::once(|| {
            self.lock = Some(run.prepare().map_err(Failure::from)?);
            Ok(run.dir.clone())
        })?;
        Ok(run)
    }
}

/// Refuses a folder that holds anything. Each process asks before the first one makes it.
pub(super) fn check_new(dir: &Path) -> Outcome {
    let is_new = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !dir.exists(),
    };
    match is_new {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "--keep {}: found a file or a folder that is not empty, needs a new folder",
            dir.display()
        ))),
    }
}
