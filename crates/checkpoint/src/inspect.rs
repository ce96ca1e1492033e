//! The contents of a checkpoint as a table.

use crate::{Reader, table::table};
use grid::Grid;
use hal::error::{Bytes, Counted, Grouped};
use serde::Serialize;
use serde_json::Value;
use std::{fmt, path::PathBuf};

/// A checkpoint's contents without its values. Displays as text for people and serialises for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// Training steps that led to it.
    pub step: u64,
    /// The grid that wrote it, as recorded by the writer.
    pub grid: Value,
    /// The digest of its last step, if that was hashed.
    pub step_digest: Option<String>,
    /// The loss on data that no step trains on, if it was computed.
    pub validation_loss: Option<f64>,
    /// Number of elements in all tensors.
    pub num_elements: u64,
    /// Number of bytes in all tensors.
    pub num_bytes: u64,
    /// The tensors, by name.
    pub tensors: Vec<TensorSummary>,
    /// The files besides the manifest.
    pub files: Vec<FileSummary>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorSummary {
    /// Its global name.
    pub name: String,
    /// The element type.
    pub dtype: String,
    /// Its global shape.
    pub shape: Vec<usize>,
    /// The axes that cut it, as in `[x z | y]`.
    pub layout: String,
    /// Number of pieces in which it is stored.
    pub num_pieces: usize,
    /// Its bytes.
    pub num_bytes: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSummary {
    /// Its name.
    pub name: String,
    /// Its length.
    pub num_bytes: u64,
    /// Its checksum, in hexadecimal.
    pub crc32: String,
}

/// Summarises a checkpoint without reading any tensor.
pub fn inspect(reader: &Reader) -> Summary {
    let tensors = tensors(reader);
    let elements = reader
        .manifest
        .tensors
        .values()
        .map(|tensor| tensor.info.global_shape.iter().product::<usize>());
    let file = |file: &crate::manifest::FileEntry| FileSummary {
        name: file.name.clone(),
        num_bytes: file.bytes,
        crc32: format!("{:08x}", file.crc32),
    };
    Summary {
        path: reader.path().to_owned(),
        step: reader.step(),
        grid: reader.sections().grid.clone(),
        step_digest: reader.sections().step_digest.clone(),
        validation_loss: reader.sections().validation_loss,
        num_elements: elements.map(|elements| elements as u64).sum(),
        num_bytes: tensors.iter().map(|tensor| tensor.num_bytes).sum(),
        tensors,
        files: reader.manifest.files.iter().map(file).collect(),
    }
}

fn tensors(reader: &Reader) -> Vec<TensorSummary> {
    let tensors = reader
        .manifest
        .tensors
        .iter()
        .map(|(name, tensor)| TensorSummary {
            name: name.clone(),
            dtype: tensor.info.dtype.to_string(),
            shape: tensor.info.global_shape.clone(),
            layout: tensor.info.layout.to_string(),
            num_pieces: tensor.pieces.len(),
            num_bytes: (tensor.info.global_shape.iter().product::<usize>()
                * tensor.info.dtype.bytes()) as u64,
        });
    tensors.collect()
}

impl Summary {
    fn grid(&self) -> String {
        match serde_json::from_value::<Grid>(self.grid.clone()) {
            Ok(grid) => grid.to_string(),
            Err(_) => self.grid.to_string(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.path.display())?;
        writeln!(
            f,
            "step {}, written by grid {}",
            Grouped(self.step),
            self.grid()
        )?;
        if let Some(loss) = self.validation_loss {
            writeln!(f, "validation loss {loss:.4}")?;
        }
        if let Some(digest) = &self.step_digest {
            writeln!(f, "digest of the step {digest}")?;
        }
        let bytes = size(self.num_bytes);
        writeln!(
            f,
            "{}, {} elements, {bytes}",
            Counted(self.tensors.len(), "tensor"),
            Grouped(self.num_elements)
        )?;
        let rows = self.tensors.iter().map(TensorSummary::row);
        table(
            f,
            [["tensor", "type", "shape", "cut by", "pieces", "size"].map(str::to_owned)]
                .into_iter()
                .chain(rows),
        )?;
        let rows = self.files.iter().map(|file| {
            [
                file.name.clone(),
                file.crc32.clone(),
                size(file.num_bytes).to_string(),
            ]
        });
        table(
            f,
            [["file", "crc-32", "size"].map(str::to_owned)]
                .into_iter()
                .chain(rows),
        )
    }
}

impl TensorSummary {
    fn row(&self) -> [String; 6] {
        let shape: Vec<_> = self.shape.iter().map(usize::to_string).collect();
        let pieces = self.num_pieces.to_string();
        [
            self.name.clone(),
            self.dtype.clone(),
            shape.join(" x "),
            self.layout.clone(),
            pieces,
            size(self.num_bytes).to_string(),
        ]
    }
}

fn size(bytes: u64) -> Bytes {
    Bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}
