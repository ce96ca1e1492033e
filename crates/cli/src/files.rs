//! Files that a command writes, looked at before the work begins.

use crate::failure::{Failure, Outcome};
use std::{fs, path::Path};

/// Refuses, for a flag, a file that cannot be written: one whose folder does not exist, and a folder, pipe or device of
/// that name.
///
/// # Errors
/// [`Failure::Usage`] with the flag, the path and what is in the way.
pub(crate) fn check_output(flag: &str, path: &Path) -> Outcome {
    let refuse = |why: String| Err(Failure::usage(format!("{flag} {}: {why}", path.display())));
    let folder = hal::files::folder(path);
    if !folder.is_dir() || path.file_name().is_none() {
        return refuse(format!(
            "found no folder {} to put a file of that name into",
            folder.display()
        ));
    }
    match fs::metadata(path).map(|metadata| hal::files::check(&metadata)) {
        Ok(Err(error)) => refuse(error.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_in_folders_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            let failure = check_output("--out", path).unwrap_err();
            failure.sentence().unwrap().to_owned()
        };
        assert!(refused(&dir.path().join("none/x.toml")).contains("found no folder"));
        assert!(refused(dir.path()).ends_with("found a folder, needs a regular file"));
        assert!(refused(Path::new("")).contains("found no folder"));
        assert_eq!(
            refused(Path::new("/dev/null")),
            "--out /dev/null: found a device, needs a regular file"
        );
        assert!(check_output("--out", &dir.path().join("new.toml")).is_ok());
    }
}
