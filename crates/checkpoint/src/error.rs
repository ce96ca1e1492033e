//! Checkpoint errors, each one sentence with its numbers.

use crate::{Tiling, boxes::show};
use grid::IndexBox;
use std::{io, path::PathBuf};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to write or read a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("checkpoint: {operation} {}: {source}", path.display())]
    Io {
        /// The attempted operation, such as `writing`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk, or the user's quota on it, is full.
    #[error("checkpoint: writing {}: found room for {written} bytes, needs {needed}", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Its full length.
        needed: u64,
        /// Number of bytes that could be written.
        written: u64,
    },
    /// The path does not exist.
    #[error("checkpoint: {} does not exist", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A folder without a complete checkpoint.
    #[error("checkpoint: {} holds no complete checkpoint (a folder step-* with a manifest.json)", path.display())]
    NoCheckpoint {
        /// The folder searched.
        path: PathBuf,
    },
    /// A checkpoint differs from what was written.
    #[error(
        "checkpoint {}: {fault}{}",
        path.display(),
        offer.as_ref().map_or_else(String::new, |name| format!("; {name} beside it is intact"))
    )]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// The damage.
        fault: Fault,
        /// Name of the newest earlier checkpoint that was verified and found intact.
        offer: Option<String>,
    },
    /// The boxes of all ranks do not tile a tensor.
    #[error("checkpoint: tensor {name}: {fault}")]
    Tiling {
        /// The tensor.
        name: String,
        /// The place where they do not.
        fault: Box<Tiling>,
    },
    /// Two ranks describe one tensor differently.
    #[error(
        "checkpoint: tensor {name}: rank {} says {what} {}, but rank {} says {}", first.0, first.1, second.0, second.1
    )]
    Disagree {
        /// The tensor.
        name: String,
        /// The property in which they differ: `dtype`, `shape` or `layout`.
        what: &'static str,
        /// One rank and its description.
        first: (usize, String),
        /// Another rank and its description.
        second: (usize, String),
    },
    /// A piece cannot be stored.
    #[error(
        "checkpoint: tensor {name}, box {} of rank {rank}: found {found}, needs {needed}",
        show(index)
    )]
    Piece {
        /// The tensor.
        name: String,
        /// The piece.
        index: Box<IndexBox>,
        /// The rank that holds it.
        rank: usize,
        /// The value found.
        found: String,
        /// The required value.
        needed: String,
    },
    /// A layout or a grid does not fit.
    #[error(transparent)]
    Grid(#[from] grid::Error),
    /// No tensor has that name.
    #[error("checkpoint {}: found no tensor {name} among its {num_tensors}", path.display())]
    UnknownTensor {
        /// The checkpoint or file.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// Number of tensors.
        num_tensors: usize,
    },
    /// A requested box lies outside its tensor.
    #[error(
        "checkpoint: reading tensor {name}: found box {}, needs one within shape {shape:?}",
        show(index)
    )]
    Outside {
        /// The tensor.
        name: String,
        /// The requested box.
        index: IndexBox,
        /// The tensor's global shape.
        shape: Vec<usize>,
    },
    /// A tensor has another shape than the caller expects.
    #[error("checkpoint: reading tensor {name}: found shape {found:?}, needs {needed:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its global shape.
        found: Vec<usize>,
        /// The shape asked for.
        needed: Vec<usize>,
    },
    /// A tensor has elements of an unexpected type.
    #[error("checkpoint: reading tensor {name}: found elements of {found}, needs {needed}")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The types that this call can read.
        needed: &'static str,
    },
    /// A tensor was placed on a stage that the grid does not have.
    #[error("checkpoint: tensor {name}: found stage {stage}, needs less than {num_stages}")]
    Stage {
        /// The tensor.
        name: String,
        /// Its stage.
        stage: usize,
        /// Number of stages of the grid.
        num_stages: usize,
    },
    /// Too many ranks of a grid would write a file each.
    #[error("checkpoint: found {found} ranks that store elements, needs at most {needed}")]
    Owners {
        /// Number of ranks along the axes that cut tensors and along Pipeline.
        found: usize,
        /// The most.
        needed: usize,
    },
    /// An export would replace a file.
    #[error("checkpoint: exporting to {}: found a file of that name, needs another name, or to be asked to overwrite it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The list of the files of a model is not one, or not that of these files.
    #[error("checkpoint: {}: {reason}", path.display())]
    Index {
        /// The list.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file is not a complete safetensors file.
    #[error("checkpoint: {} ({bytes} bytes) is not a complete safetensors file: {reason}", path.display())]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The reason, from its header.
        reason: String,
    },
    /// A store of checkpoints refused, did not answer, or cannot be.
    #[error("checkpoint store {url}: {operation}: {reason}")]
    Store {
        /// Its URL, without secrets.
        url: String,
        /// The attempted operation, such as `listing` or `writing step-00000120/manifest.json`.
        operation: String,
        /// The reason, in one line, without secrets.
        reason: String,
    },
    /// A store does not have a checkpoint.
    #[error(
        "checkpoint store {url}: found {}, needs {}",
        newest.map_or("no complete checkpoint".into(), |newest| format!("no step {}; its newest is {newest}", step.unwrap_or(0))),
        step.map_or("one".into(), |step| format!("step {step}"))
    )]
    NotStored {
        /// Its URL.
        url: String,
        /// The step that was asked for; nothing for the newest.
        step: Option<u64>,
        /// The newest that it has.
        newest: Option<u64>,
    },
    /// No tensor was selected for export.
    #[error("checkpoint {}: none of its {num_tensors} tensors is selected for export", path.display())]
    NothingToExport {
        /// The checkpoint.
        path: PathBuf,
        /// Number of tensors.
        num_tensors: usize,
    },
}

/// How a checkpoint differs from what was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It was never finished, or its manifest was removed.
    #[error("manifest.json is missing")]
    NoManifest,
    /// The manifest cannot be parsed, or contradicts itself.
    #[error("manifest.json is damaged: {reason}")]
    Manifest {
        /// How it differs.
        reason: String,
    },
    /// Another release wrote it.
    #[error("manifest.json has format {found}, this program reads {needed}")]
    Format {
        /// The manifest's format number.
        found: u64,
        /// The format number that this program reads.
        needed: u64,
    },
    /// A file is missing.
    #[error("{file} is missing, needs {needed} bytes")]
    NoFile {
        /// The file's name.
        file: String,
        /// Its length when written.
        needed: u64,
    },
    /// A file is shorter (or longer) than when it was written.
    #[error("{file} is {}: found {found} bytes, needs {needed}", if found < needed { "truncated" } else { "too long" })]
    Length {
        /// The file's name.
        file: String,
        /// Its length.
        found: u64,
        /// Its length when written.
        needed: u64,
    },
    /// The bytes of a file differ from those written.
    #[error("{file} is damaged: its {bytes} bytes have CRC-32 {found:08x}, needs {needed:08x}")]
    Crc {
        /// The file's name.
        file: String,
        /// Its length.
        bytes: u64,
        /// Its sum.
        found: u32,
        /// Its checksum when written.
        needed: u32,
    },
    /// The boxes do not tile a tensor.
    #[error("tensor {name}: {fault}")]
    Tiling {
        /// The tensor.
        name: String,
        /// The place where they do not.
        fault: Box<Tiling>,
    },
}

impl Error {
    /// Wraps the system's error on `path`.
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            operation,
            path,
            source,
        }
    }

    /// Like [`Error::io`], for writing a file of `needed` bytes; a full disk becomes [`Error::NoSpace`].
    pub(crate) fn writing(
        path: impl Into<PathBuf>,
        needed: u64,
        written: u64,
        source: io::Error,
    ) -> Error {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Error::NoSpace {
                path,
                needed,
                written,
            },
            _ => Error::Io {
                operation: "writing",
                path,
                source,
            },
        }
    }

    /// The same damage, at another place; other errors stay as they are.
    pub fn at(self, place: &std::path::Path) -> Error {
        match self {
            Error::Damaged { fault, .. } => Error::damaged(place, fault),
            other => other,
        }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, fault: Fault) -> Error {
        Error::Damaged {
            path: path.into(),
            fault,
            offer: None,
        }
    }

    pub(crate) fn not_float(name: &str, found: impl std::fmt::Display) -> Error {
        Error::Dtype {
            name: name.to_owned(),
            found: found.to_string(),
            needed: "f64, f32, bf16 or f16",
        }
    }
}
