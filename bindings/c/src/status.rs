//! What a call returns: a status, and the sentence behind it.

use library::hal::Error;
use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// `fascicle_status`.
pub(crate) type Status = c_int;

pub(crate) const OK: Status = 0;
pub(crate) const INVALID: Status = 1;
const FAILED: Status = 8;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of an exported function: an error or a panic becomes a status, and its sentence is kept.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Error>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(error)) => {
            keep(&error.to_string());
            number(&error)
        }
        Err(_) => {
            keep("a bug of the library: it panicked");
            FAILED
        }
    }
}

/// Keeps a sentence for `fascicle_error`.
pub(crate) fn keep(sentence: &str) {
    let text = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
}

/// The calling thread's last sentence.
pub(crate) fn last() -> String {
    LAST.with(|last| last.borrow().to_string_lossy().into_owned())
}

/// The status of an error.
pub(crate) fn number(error: &Error) -> Status {
    match error {
        Error::Invalid { .. } => INVALID,
        Error::Unsupported { .. } | Error::NoValues { .. } => 2,
        Error::OutOfMemory { .. } => 3,
        Error::Mismatch { .. } => 4,
        Error::Timeout { .. } => 5,
        Error::Aborted { .. } => 6,
        Error::Vendor { .. } => 7,
        _ => FAILED,
    }
}

/// The calling thread's last error as one sentence.
#[unsafe(no_mangle)]
pub extern "C" fn fascicle_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
