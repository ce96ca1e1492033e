//! A checkpoint of tensors from another program's folder.

use super::{PlainFolder, SLAB_ELEMENTS, View};
use crate::{
    Result, Sections, TensorInfo, Writer,
    boxes::slabs,
    disk::FileSystem,
    element,
    shard::{PieceRecord, write_records},
};
use grid::IndexBox;
use std::path::{Path, PathBuf};

/// A tensor of the new checkpoint, and where it comes from.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its description.
    pub info: TensorInfo,
    /// Its place in the folder.
    pub view: View,
}

/// Writes a checkpoint of step 0 with these tensors, as one rank would write it.
///
/// Memory holds up to 2^25 elements at a time.
///
/// # Errors
/// [`Error::Outside`](crate::Error::Outside) for a view beyond its tensor; those of [`PlainFolder::read_f64`],
/// [`Writer::begin`] and [`Writer::commit`]; [`Error::NoSpace`](crate::Error::NoSpace) or
/// [`Error::Io`](crate::Error::Io) if the file cannot be written.
pub fn import(
    folder: &PlainFolder,
    checkpoints_dir: &Path,
    tensors: &[Imported],
    sections: Sections,
) -> Result<PathBuf> {
    for Imported { info, view, .. } in tensors {
        view.check(info.global_shape.len())?;
    }
    let pieces = tensors.iter().map(|tensor| PieceRecord {
        name: tensor.name.clone(),
        dtype: tensor.info.dtype,
        global_shape: tensor.info.global_shape.clone(),
        layout: tensor.info.layout.clone(),
        index: IndexBox::full(&tensor.info.global_shape),
        offset: 0,
    });
    let writer = Writer::begin(checkpoints_dir, 0)?;
    let record = write_records(
        &FileSystem,
        writer.dir(),
        0,
        pieces.collect(),
        &mut |piece, emit| {
            let Imported { info, view, .. } = &tensors[piece];
            for slab in slabs(&IndexBox::full(&info.global_shape), SLAB_ELEMENTS) {
                let numbers = view.read(
                    |name, whole, index| folder.read_f64(name, whole, index),
                    &slab,
                )?;
                emit(&element::bytes(info.dtype, &numbers))?;
            }
            Ok(())
        },
    )?;
    writer.commit(vec![record], sections)
}
