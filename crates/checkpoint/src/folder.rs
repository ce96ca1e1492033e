//! The checkpoints folder: names, the checkpoints it holds, and cleaning up.
//!
//! | name | what it is |
//! |---|---|
//! | `step-00000120` | a complete checkpoint |
//! | `.writing-step-00000120` | one that is being written, or that a dead process left |
//! | `.old-step-00000120` | the complete one that is being replaced; readers use it until the new one is in place |
//! | `.removed-step-00000120` | one that is being removed |

use crate::{Error, Result, disk::Disk};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(crate) const MANIFEST: &str = "manifest.json";

/// The meaning of a folder's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FolderKind {
    Final,
    Writing,
    Old,
    Removed,
}

impl FolderKind {
    const ALL: [FolderKind; 4] = [
        FolderKind::Final,
        FolderKind::Writing,
        FolderKind::Old,
        FolderKind::Removed,
    ];

    const fn prefix(self) -> &'static str {
        match self {
            FolderKind::Final => "step-",
            FolderKind::Writing => ".writing-step-",
            FolderKind::Old => ".old-step-",
            FolderKind::Removed => ".removed-step-",
        }
    }

    /// The folder of this kind for a step.
    pub(crate) fn path(self, checkpoints_dir: &Path, step: u64) -> PathBuf {
        checkpoints_dir.join(format!("{}{step:08}", self.prefix()))
    }

    /// Parses a name; `None` for names of other things.
    pub(crate) fn parse(name: &str) -> Option<(FolderKind, u64)> {
        FolderKind::ALL.into_iter().find_map(|kind| {
            let digits = name.strip_prefix(kind.prefix())?;
            let plain = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain
                .then(|| digits.parse().ok())
                .flatten()
                .map(|step| (kind, step))
        })
    }
}

/// Where the complete checkpoint of a step is.
pub fn path_of_step(checkpoints_dir: &Path, step: u64) -> PathBuf {
    FolderKind::Final.path(checkpoints_dir, step)
}

/// The name of a path, as far as it is text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// The entries of a checkpoints folder, by kind and step.
pub(crate) fn entries(checkpoints_dir: &Path) -> Result<Vec<(FolderKind, u64)>> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing {
            path: checkpoints_dir.to_owned(),
        },
        _ => Error::io("listing", checkpoints_dir)(error),
    };
    let listed: io::Result<Vec<_>> = fs::read_dir(checkpoints_dir).map_err(failed)?.collect();
    let names = listed.map_err(Error::io("listing", checkpoints_dir))?;
    let mut entries: Vec<_> = names
        .iter()
        .filter_map(|entry| FolderKind::parse(entry.file_name().to_str()?))
        .collect();
    entries.sort_unstable();
    Ok(entries)
}

/// The complete checkpoints of a folder, by ascending step.
pub(crate) fn complete(checkpoints_dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for (kind, step) in entries(checkpoints_dir)? {
        let path = kind.path(checkpoints_dir, step);
        let stands = kind == FolderKind::Final
            || kind == FolderKind::Old && !FolderKind::Final.path(checkpoints_dir, step).exists();
        if stands && path.join(MANIFEST).is_file() {
            found.push((step, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The checkpoint given by its own path, its checkpoints folder or its run's folder; if there are several, the
/// newest.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    if !path.exists() {
        return Err(Error::Missing {
            path: path.to_owned(),
        });
    }
    let is_checkpoint = matches!(
        FolderKind::parse(name(path)),
        Some((FolderKind::Final | FolderKind::Old, _))
    );
    if is_checkpoint || path.join(MANIFEST).is_file() {
        return Ok(path.to_owned());
    }
    let of_run = path.join("checkpoints");
    let checkpoints_dir = if of_run.is_dir() {
        of_run
    } else {
        path.to_owned()
    };
    let newest = complete(&checkpoints_dir)?.pop();
    newest.map(|(_, path)| path).ok_or(Error::NoCheckpoint {
        path: checkpoints_dir,
    })
}

/// Removes all checkpoints of a folder, complete or not, and the folder, if it holds nothing else; succeeds if there is none.
///
/// # Errors
/// [`Error::Io`] if the disk refuses.
pub fn clear(disk: &dyn Disk, checkpoints_dir: &Path) -> Result<()> {
    let found = match entries(checkpoints_dir) {
        Err(Error::Missing { .. }) => return Ok(()),
        found => found?,
    };
    for (kind, step) in found {
        let path = kind.path(checkpoints_dir, step);
        disk.remove(&path).map_err(Error::io("removing", &path))?;
    }
    match fs::remove_dir(checkpoints_dir) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::io("removing", checkpoints_dir)(error))
        }
        _ => Ok(()),
    }
}

/// Finishes what a dead process had started: restores or removes a replaced checkpoint, and completes removals.
pub(crate) fn tidy(disk: &dyn Disk, checkpoints_dir: &Path) -> Result<()> {
    let found = entries(checkpoints_dir)?;
    let is_replaced =
        |(kind, _): &(FolderKind, u64)| matches!(kind, FolderKind::Old | FolderKind::Removed);
    if found.iter().any(is_replaced) {
        // The process may have died before it synced its renames. A power cut would undo them, and give a folder that is
        // half removed by then the name of a checkpoint.
        disk.sync_dir(checkpoints_dir)
            .map_err(Error::io("syncing", checkpoints_dir))?;
    }
    for (kind, step) in found {
        let path = kind.path(checkpoints_dir, step);
        let in_place = FolderKind::Final.path(checkpoints_dir, step);
        match kind {
            FolderKind::Old if !in_place.exists() => {
                disk.rename(&path, &in_place)
                    .map_err(Error::io("renaming", &path))?;
            }
            FolderKind::Old | FolderKind::Removed => {
                disk.remove(&path).map_err(Error::io("removing", &path))?
            }
            FolderKind::Final | FolderKind::Writing => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::FileSystem,
        tests::{folder, names},
    };

    #[test]
    fn names_and_kinds() {
        assert_eq!(
            name(&FolderKind::Final.path(Path::new("a"), 120)),
            "step-00000120"
        );
        assert_eq!(
            FolderKind::parse("step-00000120"),
            Some((FolderKind::Final, 120))
        );
        assert_eq!(
            FolderKind::parse(".old-step-1234567890"),
            Some((FolderKind::Old, 1_234_567_890))
        );
        for other in [
            "step-120",
            "step-0000012x",
            "step-+0000012",
            "xstep-00000120",
            "step-99999999999999999999",
        ] {
            assert_eq!(FolderKind::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_replaced_checkpoint_stands_in_until_the_new_one_is_there() {
        let dir = folder(&["step-00000040", ".old-step-00000080"]);
        assert_eq!(
            resolve(dir.path()).unwrap(),
            dir.path().join(".old-step-00000080")
        );
        tidy(&FileSystem, dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["step-00000040", "step-00000080"]);
        let dir = folder(&[
            "step-00000080",
            ".old-step-00000080",
            ".removed-step-00000040",
        ]);
        assert_eq!(
            resolve(dir.path()).unwrap(),
            dir.path().join("step-00000080")
        );
        tidy(&FileSystem, dir.path()).unwrap();
        assert_eq!(names(dir.path()), ["step-00000080"]);
    }

    #[test]
    fn only_checkpoints_are_removed() {
        let kinds = [
            "step-00000040",
            ".writing-step-00000080",
            ".old-step-00000040",
        ];
        let dir = folder(&kinds);
        let all = dir.path().join("all");
        fs::create_dir(&all).unwrap();
        for name in kinds {
            fs::rename(dir.path().join(name), all.join(name)).unwrap();
        }
        fs::write(all.join("notes"), "").unwrap();
        clear(&FileSystem, &all).unwrap();
        assert_eq!(names(&all), ["notes"]);
        fs::remove_file(all.join("notes")).unwrap();
        for _ in 0..2 {
            clear(&FileSystem, &all).unwrap();
            assert!(!all.exists());
        }
    }

    #[test]
    fn a_run_its_checkpoints_and_a_checkpoint_lead_to_the_same() {
        let run = tempfile::tempdir().unwrap();
        let checkpoint = run.path().join("checkpoints/step-00000007");
        let said = || resolve(run.path()).unwrap_err().to_string();
        assert!(
            said().ends_with("holds no complete checkpoint (a folder step-* with a manifest.json)"),
            "{}",
            said()
        );
        fs::create_dir_all(&checkpoint).unwrap();
        fs::write(checkpoint.join(MANIFEST), "").unwrap();
        for path in [run.path(), &run.path().join("checkpoints"), &checkpoint] {
            assert_eq!(resolve(path).unwrap(), checkpoint);
        }
        assert!(matches!(
            resolve(&run.path().join("gone")),
            Err(Error::Missing { .. })
        ));
    }
}
