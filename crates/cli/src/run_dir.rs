//! The folder of a run: its name and contents.

use crate::{
    calendar,
    failure::{Failure, Outcome},
};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Makes a folder for a new run, named by the time, in `runs` of the current folder.
pub(crate) fn fresh() -> Outcome<PathBuf> {
    fresh_in(Path::new("runs"), &calendar::stamp())
}

// Creating the folder claims its name, so two runs of the same second get two folders.
fn fresh_in(runs: &Path, stamp: &str) -> Outcome<PathBuf> {
    let refuse =
        |path: &Path, error| Failure::run(format!("run directory {}: {error}", path.display()));
    fs::create_dir_all(runs).map_err(|error| refuse(runs, error))?;
    let mut dir = runs.join(stamp);
    for number in 2.. {
        match fs::create_dir(&dir) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                dir = runs.join(format!("{stamp}-{number}"))
            }
            Err(error) => return Err(refuse(&dir, error)),
        }
    }
    Ok(dir)
}

/// Removes the folder of a run that has failed before its first step, if nothing is in it but what every run makes.
pub(crate) fn remove_unused(dir: &Path) {
    let checkpoints = dir.join("checkpoints");
    if contents(dir) != ["checkpoints/"] || !contents(&checkpoints).is_empty() {
        return;
    }
    // Each fails, and leaves the folder, where something else is in it.
    let removed = fs::remove_dir(&checkpoints).and_then(|()| fs::remove_file(dir.join(".lock")));
    removed.and_then(|()| fs::remove_dir(dir)).ok();
}

/// The folder's contents, by name; folders end with a slash.
pub(crate) fn contents(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let name = |entry: fs::DirEntry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{slash}", entry.file_name().to_string_lossy())
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_without_results_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, file: Option<&str>| {
            let dir = folder.path().join(name);
            fs::create_dir_all(dir.join("checkpoints")).unwrap();
            let files = std::iter::once(".lock").chain(file);
            files.for_each(|file| fs::write(dir.join(file), "").unwrap());
            remove_unused(&dir);
            dir.join("checkpoints").exists()
        };
        assert!(!make("failed", None));
        assert!(make("begun", Some("metrics.jsonl")));
        assert!(make("saved", Some("checkpoints/step-1")));
        assert_eq!(contents(folder.path()), ["begun/", "saved/"]);
    }

    #[test]
    fn runs_of_one_second_get_folders_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let names = [(); 3].map(|()| fresh_in(&runs, "2026-01-01-000000").unwrap());
        let names = names.map(|dir| dir.file_name().unwrap().to_string_lossy().into_owned());
        assert_eq!(
            names,
            [
                "2026-01-01-000000",
                "2026-01-01-000000-2",
                "2026-01-01-000000-3"
            ]
        );
        assert_eq!(
            contents(&runs),
            [
                "2026-01-01-000000-2/",
                "2026-01-01-000000-3/",
                "2026-01-01-000000/"
            ]
        );
    }
}
