//! What can go wrong with checkpoints, each in one sentence with its numbers.

use crate::{Tiling, boxes::show};
use grid::IndexBox;
use std::{io, path::PathBuf};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to write or to read a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("checkpoint: {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `writing`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own word.
        source: io::Error,
    },
    /// The disk, or what a user may have of it, is full.
    #[error("checkpoint: writing {}: found room for {written} bytes, needs {needed}", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Its full length.
        needed: u64,
        /// How much of it could be written.
        written: u64,
    },
    /// The path leads nowhere.
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
    /// A checkpoint is not as it was written.
    #[error(
        "checkpoint {}: {fault}{}",
        path.display(),
        offer.as_ref().map_or_else(String::new, |name| format!("; {name} beside it is whole"))
    )]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
        /// Name of the newest earlier checkpoint that was verified and found whole.
        offer: Option<String>,
    },
    /// The boxes of all ranks do not tile a tensor.
    #[error("checkpoint: tensor {name}: {fault}")]
    Tiling {
        /// The tensor.
        name: String,
        /// Where they do not.
        fault: Box<Tiling>,
    },
    /// Two ranks describe one tensor differently.
    #[error(
        "checkpoint: tensor {name}: rank {} says {what} {}, but rank {} says {}", first.0, first.1, second.0, second.1
    )]
    Disagree {
        /// The tensor.
        name: String,
        /// What they differ in: `dtype`, `shape` or `layout`.
        what: &'static str,
        /// One rank and its word.
        first: (usize, String),
        /// Another rank and its word.
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
        /// What it is.
        found: String,
        /// What it has to be.
        needed: String,
    },
    /// A layout or a grid does not fit.
    #[error(transparent)]
    Grid(#[from] grid::Error),
    /// There is no tensor of that name.
    #[error("checkpoint {}: found no tensor {name} among its {num_tensors}", path.display())]
    UnknownTensor {
        /// The checkpoint or file.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// How many tensors there are.
        num_tensors: usize,
    },
    /// A box was asked for that is not within its tensor.
    #[error(
        "checkpoint: reading tensor {name}: found box {}, needs one within shape {shape:?}",
        show(index)
    )]
    Outside {
        /// The tensor.
        name: String,
        /// The box asked for.
        index: IndexBox,
        /// The tensor's global shape.
        shape: Vec<usize>,
    },
    /// A tensor's elements are of a type that was not asked for.
    #[error("checkpoint: reading tensor {name}: found elements of {found}, needs {needed}")]
    Dtype {
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The types that can be read so.
        needed: &'static str,
    },
    /// A tensor was placed on a stage that the grid does not have.
    #[error("checkpoint: tensor {name}: found stage {stage}, needs less than {num_stages}")]
    Stage {
        /// The tensor.
        name: String,
        /// Its stage.
        stage: usize,
        /// The grid's stages.
        num_stages: usize,
    },
    /// A file is no whole safetensors file.
    #[error("checkpoint: {} ({bytes} bytes) is not a whole safetensors file: {reason}", path.display())]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// What its header says.
        reason: String,
    },
    /// No tensor was chosen.
    #[error("checkpoint {}: none of its {num_tensors} tensors is chosen for export", path.display())]
    NothingToExport {
        /// The checkpoint.
        path: PathBuf,
        /// How many tensors there are.
        num_tensors: usize,
    },
}

/// In what way a checkpoint is not as it was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It was never finished, or its manifest was taken away.
    #[error("manifest.json is missing")]
    NoManifest,
    /// The manifest does not say what a manifest says.
    #[error("manifest.json is damaged: {reason}")]
    Manifest {
        /// In which respect.
        reason: String,
    },
    /// Another release wrote it.
    #[error("manifest.json has format {found}, this program reads {needed}")]
    Format {
        /// The manifest's number.
        found: u64,
        /// The number that is read.
        needed: u64,
    },
    /// A file is gone.
    #[error("{file} is missing, needs {needed} bytes")]
    NoFile {
        /// The file's name.
        file: String,
        /// Its length as written.
        needed: u64,
    },
    /// A file is shorter (or longer) than it was written.
    #[error("{file} is {}: found {found} bytes, needs {needed}", if found < needed { "truncated" } else { "too long" })]
    Length {
        /// The file's name.
        file: String,
        /// Its length.
        found: u64,
        /// Its length as written.
        needed: u64,
    },
    /// A file's bytes are others than those written.
    #[error("{file} is damaged: its {bytes} bytes have CRC-32 {found:08x}, needs {needed:08x}")]
    Crc {
        /// The file's name.
        file: String,
        /// Its length.
        bytes: u64,
        /// Its sum.
        found: u32,
        /// Its sum as written.
        needed: u32,
    },
    /// The boxes do not tile a tensor.
    #[error("tensor {name}: {fault}")]
    Tiling {
        /// The tensor.
        name: String,
        /// Where they do not.
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

    /// As [`Error::io`] while writing a file of `needed` bytes; a full disk becomes [`Error::NoSpace`].
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
