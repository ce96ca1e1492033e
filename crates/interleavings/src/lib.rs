//! Every interleaving of the primitives with which ranks wait for each other.
//!
//! This crate compiles the source files of signals, rounds, queues, channels and meetings a second time, over the
//! primitives of [`sync`]. Those belong to loom, which runs a model once for each order of its threads' steps and for
//! each value that the memory model lets a load return. To the files, this crate is `hal`, `cpu`, `bootstrap` and `gpu`
//! at once: it has the modules that they name under the same paths. What they need beside, it replaces by the least
//! that works: buffers are cells in which loom detects races ([`collectives`]), a device's event is a flag ([`event`]).
//!
//! The models are functions, which `tests/models.rs` runs: [`signal`], [`abort_signal`], [`queues`], and one module
//! each in [`collectives`], [`local`] and [`staged`].

// Files of other crates contain more than the models use.
#![allow(dead_code, unused_imports)]

extern crate self as hal;

pub mod abort_signal;
pub mod collectives;
pub mod event;
pub mod local;
pub mod queues;
pub mod signal;
pub mod staged;
pub mod sync;

pub(crate) mod patience;
pub(crate) mod pool;
pub(crate) mod world;

#[path = "../../hal/src/abort.rs"]
pub mod abort;
#[path = "../../hal/src/communicator.rs"]
mod communicator;
#[path = "../../hal/src/lock.rs"]
pub mod lock;
#[path = "../../hal/src/stopwatch.rs"]
mod stopwatch;
#[path = "../../cpu/src/stream/mod.rs"]
pub(crate) mod stream;
#[path = "../../cpu/src/wait.rs"]
pub(crate) mod wait;

pub use abort::AbortSignal;
pub use communicator::{Communicator, GroupId, Join};
use contracts::*;
pub use lock::lock;
pub use stopwatch::Stopwatch;
