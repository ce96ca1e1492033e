//! A folder that appears once it is complete.

use crate::{
    Error, Result,
    checkpoint::{replace_file, sync_name},
};
use serde_json::Value;
use std::{fs, io, path::Path};

/// Fills a new folder under another name, and gives it its own at the end. A folder that fails is removed.
///
/// # Errors
/// [`Error::Foreign`] if there is something of that name; [`Error::File`] if the system refuses; those of `fill`.
pub(super) fn create<T>(out: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if fs::symlink_metadata(out).is_ok() {
        let reason = "is there already; needs the name of a new folder";
        return Err(Error::foreign(out, reason));
    }
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let writing = out.with_file_name(format!(".writing-{name}"));
    remove(&writing).map_err(Error::file(&writing))?;
    fs::create_dir_all(&writing).map_err(Error::file(&writing))?;
    let filled = fill(&writing).and_then(|filled| {
        fs::rename(&writing, out).map_err(Error::file(out))?;
        sync_name(out).map_err(Error::file(out))?;
        Ok(filled)
    });
    if filled.is_err() {
        // The first failure is the one to report.
        remove(&writing).ok();
    }
    filled
}

/// Writes a value as JSON.
///
/// # Errors
/// [`Error::File`] if the system refuses.
pub(super) fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::setting("export", error, "values that JSON can hold"))?;
    text.push(b'\n');
    replace_file(path, &text).map_err(Error::file(path))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder).is_ok() {
        true => fs::remove_dir_all(folder),
        false => Ok(()),
    }
}
