//! Errors that end a run.

use std::path::PathBuf;

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a run, in one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration asks for something impossible.
    #[error("{0}")]
    Config(String),
    /// A device, a collective or a layer failed.
    #[error(transparent)]
    Parallel(#[from] hal::Error),
    /// The grid does not fit.
    #[error(transparent)]
    Grid(#[from] grid::Error),
    /// The data is faulty.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// A checkpoint is faulty.
    #[error(transparent)]
    Checkpoint(#[from] crate::checkpoint::Error),
    /// Records could not be written or read.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The loss or the gradients are not finite.
    #[error(
        "step {step}: {what} is {value}, first in micro-batch {micro_batch}; first bad tensor: {tensor}"
    )]
    Diverged {
        /// Number of the step, from 1 as in the records.
        step: u64,
        /// Which is not finite: the loss or the norm of the gradients.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The first micro-batch whose loss is not finite, or `none`.
        micro_batch: String,
        /// The first tensor, in the order of layers, that holds a number that is not finite.
        tensor: String,
    },
}

impl Error {
    /// Whether the user asked for something impossible, found before anything ran.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Config(_) | Error::Grid(_))
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
