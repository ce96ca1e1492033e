//! Errors of either library.

use library::hal;

/// An error of Fascicle or of candle. Either converts into it, so a function that uses both returns this crate's [`Result`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong argument, a failed collective, or ranks that differ.
    #[error(transparent)]
    Fascicle(#[from] library::Error),
    /// An operation of candle.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<hal::Error> for Error {
    fn from(error: hal::Error) -> Error {
        Error::Fascicle(error.into())
    }
}

impl From<library::train::checkpoint::Error> for Error {
    fn from(error: library::train::checkpoint::Error) -> Error {
        Error::Fascicle(error.into())
    }
}

impl From<Error> for candle_core::Error {
    /// For functions that candle calls, such as a module's `forward`.
    fn from(error: Error) -> candle_core::Error {
        match error {
            Error::Candle(error) => error,
            Error::Fascicle(error) => candle_core::Error::wrap(error),
        }
    }
}
