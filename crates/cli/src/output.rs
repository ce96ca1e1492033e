//! What is printed where: results to stdout, the rest to stderr. A closed pipe is never a panic.

use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::{
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether another process prints for the job.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Prints nothing from now on, because another process of the job prints.
pub(crate) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Prints again, because this process now has to report.
pub(crate) fn speak() {
    SILENT.store(false, Ordering::Relaxed);
}

fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints lines for people. The work does not depend on whether anybody reads them.
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
