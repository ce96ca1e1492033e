//! Exports full tensors to one safetensors file, for other programs.

use crate::{
    Error, Reader, Result,
    disk::{Disk, Local},
    folder,
    reshard::copy,
    stream::{self, Entry},
};
use grid::IndexBox;
use std::{collections::BTreeMap, path::Path};

/// Writes full tensors to one plain safetensors file, and returns its length.
///
/// `renamed` maps a name in the checkpoint to a name in the file, or to `None` to leave that tensor out. The
/// checkpoint is verified first. The file appears under its name once it is complete, and replaces a file of
/// that name. Memory holds one slab of 16 MiB at a time.
///
/// # Errors
/// [`Error::NothingToExport`] if every tensor is left out; those of [`Reader::verify`]; [`Error::NoSpace`] or
/// [`Error::Io`] if the file cannot be written.
pub fn export_safetensors(
    reader: &Reader,
    path: &Path,
    renamed: &dyn Fn(&str) -> Option<String>,
) -> Result<u64> {
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
    Local
        .remove(&writing)
        .map_err(Error::io("removing", &writing))?;
    // `pt` states that dims are in PyTorch's order, which readers of such files require.
    let metadata = [
        ("format", "pt".to_owned()),
        ("step", reader.step().to_string()),
    ];
    let metadata: BTreeMap<_, _> = metadata
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let written = stream::write(&Local, &writing, &entries, &metadata, &mut |index, emit| {
        copy(
            reader,
            names[index].0,
            &IndexBox::full(&entries[index].shape),
            emit,
        )
    })?;
    Local.rename(&writing, path).map_err(|source| {
        // The failed rename is the error to report.
        let _ = Local.remove(&writing);
        Error::io("renaming", &writing)(source)
    })?;
    Ok(written.bytes)
}

fn entry(reader: &Reader, name: &str, key: &str) -> Result<Entry> {
    let info = reader.info(name)?;
    Ok(Entry {
        key: key.to_owned(),
        dtype: info.dtype,
        shape: info.global_shape.clone(),
    })
}
