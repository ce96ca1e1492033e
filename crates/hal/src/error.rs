//! Errors at and below the seam.

use crate::{DType, DeviceId};
use std::{fmt, time::Duration};

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the numbers that explain it. Displays as `operation: found, needed, where`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An argument does not fit the operation: a user's mistake, found before any work was queued.
    Invalid {
        /// The operation that refused.
        operation: String,
        /// The value it was given.
        found: String,
        /// The values it accepts.
        needed: String,
    },
    /// A call into a vendor's library failed.
    Vendor {
        /// The call, with its most informative arguments.
        call: String,
        /// The library's status code.
        code: i64,
        /// The meaning of the code.
        reason: String,
        /// The device concerned.
        device: DeviceId,
    },
    /// A device has too little memory.
    OutOfMemory {
        /// The device concerned.
        device: DeviceId,
        /// Bytes requested.
        asked: usize,
        /// Bytes that the device has free.
        free: usize,
        /// Bytes that tensors hold.
        in_use: usize,
        /// Bytes in the shell's cache, kept for reuse.
        cached: usize,
        /// The bytes that the shell's tensors hold, by purpose; a vendor leaves it empty.
        by_kind: Vec<(&'static str, usize)>,
        /// Sizes in bytes of the largest live buffers, largest first.
        largest: Box<[usize]>,
    },
    /// The device cannot do this.
    Unsupported {
        /// The requested operation.
        operation: String,
        /// The unsupported element type; `None` if the operation is missing for all types.
        dtype: Option<DType>,
        /// The device concerned.
        device: DeviceId,
    },
    /// The device's buffers hold no values to read.
    NoValues {
        /// The device concerned.
        device: DeviceId,
    },
    /// Ranks of one group made different calls.
    Mismatch {
        /// The group, as in `axis Y`.
        group: String,
        /// Number of the collective within the group, from 0.
        sequence: u64,
        /// World rank and call of one rank.
        one: (usize, String),
        /// World rank and call of another.
        other: (usize, String),
    },
    /// Some ranks did not arrive at a collective in time.
    Timeout {
        /// The group, as in `axis Y`.
        group: String,
        /// World rank that waited.
        rank: usize,
        /// The call in which it waited.
        operation: String,
        /// Number of the collective within the group, from 0.
        sequence: u64,
        /// World ranks that had not arrived.
        missing: Vec<usize>,
        /// How long it waited.
        waited: Duration,
    },
    /// Another rank failed, and the job is ending.
    Aborted {
        /// World rank that failed first.
        rank: usize,
        /// Its failure.
        reason: String,
    },
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(
        operation: impl Into<String>,
        found: impl Into<String>,
        needed: impl Into<String>,
    ) -> Self {
        Error::Invalid {
            operation: operation.into(),
            found: found.into(),
            needed: needed.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid {
                operation,
                found,
                needed,
            } => write!(f, "{operation}: {found}, needs {needed}"),
            Error::Vendor {
                call,
                code,
                reason,
                device,
            } => {
                write!(f, "{call} on {device}: code {code}, {reason}")
            }
            Error::OutOfMemory {
                device,
                asked,
                free,
                in_use,
                cached,
                by_kind,
                largest,
            } => {
                write!(
                    f,
                    "allocate({asked} bytes, {}) on {device}: out of memory, ",
                    Bytes(*asked)
                )?;
                write!(
                    f,
                    "{} ({free} bytes) free, {} in use, {} cached",
                    Bytes(*free),
                    Bytes(*in_use),
                    Bytes(*cached)
                )?;
                let sizes = largest.iter().map(|&bytes| Bytes(bytes).to_string());
                let kinds = by_kind
                    .iter()
                    .map(|&(kind, bytes)| format!("{kind} {}", Bytes(bytes)));
                list(f, "in use", kinds.collect())?;
                list(f, "largest tensors", sizes.collect())
            }
            Error::Unsupported {
                operation,
                dtype,
                device,
            } => match dtype {
                Some(dtype) => write!(f, "{operation}: {device} does not support {dtype}"),
                None => write!(f, "{operation}: {device} has no code for it"),
            },
            Error::NoValues { device } => {
                write!(f, "download: buffers of {device} hold no values to read")
            }
            Error::Mismatch {
                group,
                sequence,
                one,
                other,
            } => write!(
                f,
                "collective {sequence} of {group}: rank {} calls {}, but rank {} calls {}",
                one.0, one.1, other.0, other.1
            ),
            Error::Timeout {
                group,
                rank,
                operation,
                sequence,
                missing,
                waited,
            } => write!(
                f,
                "{operation} (collective {sequence} of {group}): rank {rank} waited {:.1} s for rank{} {}",
                waited.as_secs_f64(),
                if missing.len() == 1 { "" } else { "s" },
                missing
                    .iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Error::Aborted { rank, reason } => {
                write!(f, "the job ended because rank {rank} failed: {reason}")
            }
        }
    }
}

// Appends one more clause to a sentence, unless there is nothing to add.
fn list(f: &mut fmt::Formatter<'_>, what: &str, items: Vec<String>) -> fmt::Result {
    if items.is_empty() {
        Ok(())
    } else {
        write!(f, "; {what}: {}", items.join(", "))
    }
}

impl std::error::Error for Error {}

/// A number of bytes, displayed in the most readable unit.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
            _ => write!(f, "{:.1} GiB", bytes / 1_073_741_824.0),
        }
    }
}

/// A whole number in groups of three digits, as `1,234,567`.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A count and its noun, as `1 rank`, `8 ranks` or `1,024 batches`.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a>(pub usize, pub &'a str);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(count, noun) = self;
        let end = match noun {
            _ if *count == 1 => "",
            _ if noun.ends_with('s') || noun.ends_with("ch") => "es",
            _ => "s",
        };
        write!(f, "{} {noun}{end}", Grouped(*count as u64))
    }
}
