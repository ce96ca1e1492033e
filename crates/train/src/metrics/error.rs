//! Errors of the files of a run.

use std::io;
use std::path::{Path, PathBuf};

/// The result of this module's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A fault while writing or reading metrics, plots or traces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("metrics: {operation} {}: {source}", path.display())]
    Io {
        /// The attempted operation, such as `writing`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line other than the last is not a record.
    #[error("metrics: {} line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The reason why it is invalid.
        reason: String,
    },
    /// Records are missing.
    #[error("metrics: {}: no record of steps {first} to {last}", path.display())]
    Gap {
        /// The file.
        path: PathBuf,
        /// The first step without a record.
        first: u64,
        /// The last one before the next record.
        last: u64,
    },
    /// There is nothing to draw.
    #[error("metrics: loss plot {}: none of {num_records} records has a finite loss", path.display())]
    NothingToPlot {
        /// The requested plot.
        path: PathBuf,
        /// Records handed in.
        num_records: usize,
    },
    /// The drawing library refused.
    #[error("metrics: loss plot {}: {reason}", path.display())]
    Plot {
        /// The plot.
        path: PathBuf,
        /// Its word.
        reason: String,
    },
    /// A time that is not a number, or a negative length.
    #[error(
        "trace: `{name}` on rank {rank} starts at {start_us} us and lasts {duration_us} us, needs finite times and \
         a duration of at least 0"
    )]
    SpanTime {
        /// The span.
        name: String,
        /// Its rank.
        rank: usize,
        /// Its start.
        start_us: f64,
        /// Its duration.
        duration_us: f64,
    },
    /// A rank has more streams, or there are more ranks, than a trace can distinguish.
    #[error(
        "trace: stream {stream_index} of rank {rank}: a trace holds {max_streams} streams on {max_ranks} ranks"
    )]
    TooManyStreams {
        /// The rank.
        rank: usize,
        /// The stream's index among those of its rank.
        stream_index: usize,
        /// Streams a rank may have.
        max_streams: usize,
        /// Ranks a trace may have.
        max_ranks: usize,
    },
}

impl Error {
    /// Wraps the system's error on `path`.
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            operation,
            path: path.to_path_buf(),
            source,
        }
    }
}
