//! Whole tensors in one safetensors file, for other programs.

use crate::{
    Error, Reader, Result,
    disk::{Disk, Local},
    folder,
    reshard::copy,
    stream::{self, Entry},
};
use grid::IndexBox;
use std::{collections::BTreeMap, path::Path};

/// Writes tensors, whole, as one plain safetensors file. Returns its length.
///
/// `renamed` gives the name in the file for a name in the checkpoint, or none to leave that tensor out.
/// The checkpoint is verified first. The file appears under its name when it is complete; one of that name is
/// replaced. Memory holds one slab of 16 MiB at a time.
///
/// # Errors
/// [`Error::NothingToExport`] when every tensor is left out; those of [`Reader::verify`]; [`Error::NoSpace`] or [`Error::Io`]
/// when the file cannot be written.
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
    // `pt` says that dims are in PyTorch's order, which is what readers of such files ask for.
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
        // The rename is the failure to report.
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
