//! Records what a rank receives from the others, and runs that rank alone.
//!
//! This crate is for the command `fascicle replay` and for trainers that record a rank. Begin with [One rank,
//! alone](https://github.com/fascicle-rs/fascicle/blob/main/docs/comparing-runs.md#one-rank-alone) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle), whose crate `fascicle` has the rest.
//!
//! A rank depends on other ranks only through what its collectives, messages and exchanges return. [`record`](fn@record) wraps
//! its world and its device, and writes every such result to a tape. [`replay`](fn@replay) returns a world and a device on
//! which the same program runs without the others: each call returns what the tape has. The tape also holds hashes of what the
//! rank sent. A replay compares them, so it ends at the first call at which this rank, run again, computes something else.
//!
//! Read in this order: `tape` (the file), `call` (what a frame holds), `device`, `record`, `replay`.
//!
//! # Cost
//! A recorded rank copies what it sends and receives, on the device and then to the file.

#![deny(unsafe_code)]

mod call;
mod device;
mod record;
mod replay;
mod tape;

pub use device::{Groups, Wrapped};
pub use record::record;
pub use replay::replay;
pub use tape::{Tape, TapeWriter};

use std::path::PathBuf;

/// A fault of a tape's file.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for Error {}
