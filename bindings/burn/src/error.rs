//! Errors of either library.

use burn::tensor::{DataError, ExecutionError};
use library::hal;
use std::fmt;

/// An error of Fascicle, or of a burn backend that reads a tensor.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A wrong argument, a failed collective, or ranks that differ.
    Fascicle(library::Error),
    /// A tensor whose data cannot be read, as burn reports it.
    Burn(String),
    /// Training that stopped on an error of burn's, as it reports it.
    Training(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Fascicle(error) => error.fmt(f),
            Error::Burn(error) | Error::Training(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for Error {}

impl From<hal::Error> for Error {
    fn from(error: hal::Error) -> Error {
        Error::Fascicle(error.into())
    }
}

impl From<library::Error> for Error {
    fn from(error: library::Error) -> Error {
        Error::Fascicle(error)
    }
}

impl From<ExecutionError> for Error {
    fn from(error: ExecutionError) -> Error {
        Error::Burn(error.to_string())
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Error {
        Error::Burn(error.to_string())
    }
}
