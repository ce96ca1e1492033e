//! Exports full tensors to one safetensors file, for other programs.

use crate::{
    Error, Reader, Result,
    disk::{Disk, FileSystem},
    folder,
    reshard::copy,
    stream::{self, Entry},
};
use grid::IndexBox;
use hal::files;
use std::{collections::BTreeMap, fs, io, path::Path};

/// Writes full tensors to one plain safetensors file, and returns its length.
///
/// `renamed` maps a name in the checkpoint to a name in the file, or to `None` to leave that tensor out. The
/// checkpoint is verified first. The file appears under its name once it is complete, and replaces a file of
/// that name if `overwrite` is set. Memory holds one slab of 16 MiB at a time.
///
/// # Errors
/// [`Error::Exists`] if there is a file of that name and `overwrite` is not set; [`Error::Io`] if that name is a
/// folder, a link, a pipe or a device; [`Error::NothingToExport`] if every tensor is left out; those of
/// [`Reader::verify`]; [`Error::NoSpace`] or [`Error::Io`] if the file cannot be written.
pub fn export_safetensors(
    reader: &Reader,
    path: &Path,
    overwrite: bool,
    renamed: &dyn Fn(&str) -> Option<String>,
) -> Result<u64> {
    check_name(path, overwrite)?;
    let names: Vec<(&str, String)> = reader
        .names()
        .filter_map(|name| Some((name, renamed(name)?)))
        .collect();
    if names.is_empty() {
        let num_tensors = reader.names().count();
        return Err(Error::NothingToExport {
            path: reader.path().to_owned(),
            num_tensors,
        });
    }
    reader.verify()?;
    let entries = names
        .iter()
        .map(|(name, key)| entry(reader, name, key))
        .collect::<Result<Vec<_>>>()?;
    let writing = path.with_file_name(format!(".writing-{}", folder::name(path)));
    FileSystem
        .remove(&writing)
        .map_err(Error::io("removing", &writing))?;
    // `pt` states that dims are in PyTorch's order, which readers of such files require.
    let metadata = BTreeMap::from([
        ("format".to_owned(), "pt".to_owned()),
        ("step".to_owned(), reader.step().to_string()),
    ]);
    let written = stream::write(
        &FileSystem,
        &writing,
        &entries,
        &metadata,
        &mut |index, emit| {
            copy(
                reader,
                names[index].0,
                &IndexBox::full(&entries[index].shape),
                emit,
            )
        },
    )?;
    // Another program may have used the name meanwhile.
    let renamed = check_name(path, overwrite).and_then(|()| {
        let renamed = FileSystem.rename(&writing, path);
        renamed.map_err(Error::io("renaming", &writing))
    });
    if renamed.is_err() {
        // The failed rename is the error to report.
        let _ = FileSystem.remove(&writing);
    }
    renamed.map(|()| written.bytes)
}

/// That a name is free, or that of a regular file which may be overwritten.
fn check_name(path: &Path, overwrite: bool) -> Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(Error::io("exporting to", path))?,
    };
    files::check(&metadata).map_err(Error::io("exporting to", path))?;
    match overwrite {
        true => Ok(()),
        false => Err(Error::Exists {
            path: path.to_owned(),
        }),
    }
}

fn entry(reader: &Reader, name: &str, key: &str) -> Result<Entry> {
    let info = reader.info(name)?;
    Ok(Entry {
        key: key.to_owned(),
        dtype: info.dtype,
        shape: info.global_shape.clone(),
    })
}
