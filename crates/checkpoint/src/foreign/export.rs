//! Files of another program from tensors of ours.

use super::{SLAB_ELEMENTS, View, folder::Index};
use crate::{
    Error, Result,
    boxes::slabs,
    disk::{FileSystem, replace_file},
    element,
    stream::{self, Entry},
};
use grid::IndexBox;
use hal::DType;
use serde_json::json;
use std::{collections::BTreeMap, path::Path};

/// A tensor of the other program, and those of ours that make it.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: DType,
    /// Names of ours, each with its place in this tensor. Together they fill it.
    pub parts: Vec<(String, View)>,
}

impl Exported {
    fn num_bytes(&self) -> u64 {
        let elements = self.shape.iter().map(|len| *len as u64).product::<u64>();
        elements * self.dtype.bytes() as u64
    }
}

/// Reads a box of the tensor with a name and shape.
pub type Source<'a> = dyn Fn(&str, &[usize], &IndexBox) -> Result<Vec<f64>> + 'a;

/// A file that an export has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its name in the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Writes these tensors into a folder in the order given: as `STEM.safetensors`, or as several files of up to `most_bytes` with
/// an index.
///
/// `read` gives a box of the tensor with a name and shape. Memory holds up to 2^25 elements at a time. Elements that do not fit
/// their type are rounded to the nearest.
///
/// # Errors
/// Those of `read`; [`Error::NoSpace`] or [`Error::Io`] if a file cannot be written.
pub fn export(
    dir: &Path,
    stem: &str,
    tensors: &[Exported],
    most_bytes: u64,
    read: &Source<'_>,
) -> Result<Vec<ExportedFile>> {
    let groups = groups(tensors, most_bytes);
    let (mut files, mut map) = (Vec::new(), BTreeMap::new());
    for (index, group) in groups.iter().enumerate() {
        let name = match groups.len() {
            1 => format!("{stem}.safetensors"),
            count => format!("{stem}-{:05}-of-{count:05}.safetensors", index + 1),
        };
        let bytes = write(&dir.join(&name), group, read)?;
        map.extend(
            group
                .iter()
                .map(|tensor| (tensor.name.clone(), name.clone())),
        );
        files.push(ExportedFile { name, bytes });
    }
    if groups.len() > 1 {
        let total: u64 = tensors.iter().map(Exported::num_bytes).sum();
        let index = Index {
            metadata: json!({"total_size": total}),
            weight_map: map,
        };
        let mut text = serde_json::to_vec_pretty(&index).expect("a bug: an index is plain values");
        text.push(b'\n');
        let path = dir.join(format!("{stem}.safetensors.index.json"));
        replace_file(&path, &text).map_err(Error::io("writing", &path))?;
    }
    Ok(files)
}

// Neighbours that share a file.
fn groups(tensors: &[Exported], most_bytes: u64) -> Vec<&[Exported]> {
    let (mut groups, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (index, tensor) in tensors.iter().enumerate() {
        if index > first && bytes + tensor.num_bytes() > most_bytes {
            groups.push(&tensors[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += tensor.num_bytes();
    }
    groups.push(&tensors[first..]);
    groups
}

fn write(path: &Path, tensors: &[Exported], read: &Source<'_>) -> Result<u64> {
    let entry = |tensor: &Exported| Entry {
        key: tensor.name.clone(),
        dtype: tensor.dtype,
        shape: tensor.shape.clone(),
    };
    let entries: Vec<Entry> = tensors.iter().map(entry).collect();
    let written = stream::write(
        &FileSystem,
        path,
        &entries,
        // As PyTorch's readers require.
        &BTreeMap::from([("format".to_owned(), "pt".to_owned())]),
        &mut |index, emit| {
            let tensor = &tensors[index];
            for slab in slabs(&IndexBox::full(&tensor.shape), SLAB_ELEMENTS) {
                let mut numbers = vec![0.0; slab.num_elements()];
                for (name, view) in &tensor.parts {
                    let shape = view.shape();
                    view.write(|ours| read(name, &shape, ours), (&mut numbers, &slab))?;
                }
                emit(&element::bytes(tensor.dtype, &numbers))?;
            }
            Ok(())
        },
    )?;
    Ok(written.bytes)
}
