//! Tensors in folders of other programs: under other names, transposed, or several in one.
//!
//! Read in this order: [`PlainFolder`] (full tensors in one file or in several), [`View`] (where a tensor of ours lies in one
//! of theirs), [`import`](fn@import) and [`export`](fn@export) (complete conversions, a slab at a time).

mod export;
mod folder;
mod import;
mod torch;
mod view;

pub use export::{Exported, ExportedFile, Source, export};
pub use folder::{LowRank, PlainFolder, WEIGHTS_STEM};
pub use import::{Imported, import};
pub use torch::{Distributed, saved_attributes};
pub use view::View;

use crate::{Error, Result, element};
use hal::DType;
use std::path::{Path, PathBuf};

/// The file of this name beside the list that names it. One that leads elsewhere would read files that nobody meant.
///
/// # Errors
/// [`Error::Index`].
fn listed_file(list: &Path, name: &str) -> Result<PathBuf> {
    match Path::new(name).file_name() == Some(name.as_ref()) {
        true => Ok(list.with_file_name(name)),
        false => Err(Error::Index {
            path: list.to_owned(),
            reason: format!("found the file {name:?}, needs the name of a file in this folder"),
        }),
    }
}

/// Numbers as a file whose elements have this type holds them.
///
/// # Panics
/// For a type of integers.
pub fn rounded(dtype: DType, numbers: &[f64]) -> Vec<f64> {
    let bytes = element::bytes(dtype, numbers);
    element::numbers(dtype, &bytes).expect("floats are numbers")
}

/// The most elements held at a time, as f64. A transposed tensor is read from one end to the other for each slab, so slabs
/// are large.
const SLAB_ELEMENTS: usize = 1 << 25;
