//! Where built libraries are kept, and when they are still valid.

use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// This crate's folder in the source tree.
pub fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder for built libraries: beside the test programs, or the one that `FASCICLE_EMULATOR_DIR` names.
pub fn root() -> PathBuf {
    if let Some(folder) = env::var_os("FASCICLE_EMULATOR_DIR") {
        return PathBuf::from(folder);
    }
    let program = env::current_exe().unwrap_or_default();
    let profile = program
        .ancestors()
        .find(|folder| folder.ends_with("deps"))
        .and_then(Path::parent);
    profile
        .map_or_else(env::temp_dir, Path::to_path_buf)
        .join("emulator")
}

/// The sources under some folders, in a fixed order.
pub fn sources(folders: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in folders {
        collect(folder, &mut found)
            .map_err(|problem| format!("{}: {problem}", folder.display()))?;
    }
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "cpp" || extension == "h")
        {
            found.push(path);
        }
    }
    Ok(())
}

/// A number that changes when any of the files or `rest` changes.
pub fn fingerprint(files: &[PathBuf], rest: &str) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    rest.hash(&mut hasher);
    for file in files {
        let text = fs::read(file).map_err(|problem| format!("{}: {problem}", file.display()))?;
        (file, text).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Makes `folder` with `make`, unless it exists. If several processes ask at once, one builds and the others wait.
pub fn once(folder: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let parent = folder.parent().ok_or("a folder without a parent")?;
    let say = |problem: std::io::Error| format!("{}: {problem}", folder.display());
    fs::create_dir_all(parent).map_err(say)?;
    let lock = fs::File::create(beside(folder, "lock")).map_err(say)?;
    lock.lock().map_err(say)?;
    if folder.is_dir() {
        return Ok(());
    }
    let unfinished = beside(folder, "unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(say)?;
    make(&unfinished)?;
    fs::rename(&unfinished, folder).map_err(say)
}

/// The name of `folder` with a suffix; its own name may contain a dot.
fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_once_and_not_at_all_after_a_failure() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("built");
        assert_eq!(
            once(&folder, |_| Err("no compiler".into())),
            Err("no compiler".into())
        );
        assert!(!folder.exists());
        once(&folder, |at| {
            fs::write(at.join("library"), "x").map_err(|problem| problem.to_string())
        })
        .unwrap();
        once(&folder, |_| Err("built twice".into())).unwrap();
        assert!(folder.join("library").exists());
    }

    #[test]
    fn a_changed_source_changes_the_fingerprint() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.cpp");
        fs::write(&file, "int a;").unwrap();
        let files = sources(&[place.path().to_path_buf()]).unwrap();
        let before = fingerprint(&files, "flags").unwrap();
        assert_eq!(before, fingerprint(&files, "flags").unwrap());
        fs::write(&file, "int b;").unwrap();
        assert_ne!(before, fingerprint(&files, "flags").unwrap());
    }
}
