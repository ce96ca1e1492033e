//! Where the weights of a model come from.

use super::stored::is_previous;
use crate::{
    Result,
    checkpoint::{PlainFile, Reader},
};
use grid::IndexBox;
use std::path::Path;

/// The prefix of weights in a checkpoint.
const PREFIX: &str = "weights/";

/// Weights under the names of a model's parameters: those of a checkpoint, of a file of full tensors, or of another program's
/// folder.
pub trait Weights: Send + Sync {
    /// The file or folder.
    fn path(&self) -> &Path;

    /// The names of its weights, sorted.
    fn names(&self) -> Vec<String>;

    /// The shape of the weights with a name, if they are there.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;

    /// A box of the weights with a name, which have this shape.
    ///
    /// # Errors
    /// [`Error::Checkpoint`](crate::Error::Checkpoint) if they cannot be read or are no floats.
    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>>;
}

impl Weights for PlainFile {
    fn path(&self) -> &Path {
        PlainFile::path(self)
    }

    /// Names with or without the prefix of a checkpoint, and without those of an optimiser's state.
    fn names(&self) -> Vec<String> {
        let names = PlainFile::names(self).into_iter();
        let is_weight = |name: &String| !name.starts_with("state") && !is_previous(name);
        let plain = |name: String| {
            name.strip_prefix(PREFIX)
                .map_or(name.clone(), str::to_owned)
        };
        names.filter(is_weight).map(plain).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let shape = PlainFile::shape(self, &stored_name(self, name)).ok()?;
        Some(shape.to_vec())
    }

    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        Ok(self.read_f64(&stored_name(self, name), shape, index)?)
    }
}

fn stored_name(file: &PlainFile, name: &str) -> String {
    match file.contains(name) {
        true => name.to_owned(),
        false => format!("{PREFIX}{name}"),
    }
}

impl Weights for Reader {
    fn path(&self) -> &Path {
        Reader::path(self)
    }

    fn names(&self) -> Vec<String> {
        let names = Reader::names(self).filter_map(|name| name.strip_prefix(PREFIX));
        names.map(str::to_owned).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let info = self.info(&format!("{PREFIX}{name}")).ok()?;
        Some(info.global_shape.clone())
    }

    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        Ok(self.read_f64(&format!("{PREFIX}{name}"), shape, index)?)
    }
}
