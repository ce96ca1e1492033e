//! What is printed where: results to stdout, the rest to stderr. A closed pipe is never a panic.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::{
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether another process tells what there is to tell.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Prints nothing from now on: another process of the job tells.
pub(crate) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Prints again: it has fallen to this process to tell.
pub(crate) fn speak() {
    SILENT.store(false, Ordering::Relaxed);
}

fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints lines for people. Whether anybody reads them makes no difference to the work.
pub(crate) fn note(text: &str) {
    if is_silent() {
        return;
    }
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// Prints a result.
pub(crate) fn result(text: &str) -> Outcome {
    if is_silent() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(refused)
}

/// Prints a result as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(value)
        .map_err(|error| Failure::run(format!("result as JSON: {error}")))?;
    result(&line)
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::run(format!("stdout: {error}")),
    }
}
