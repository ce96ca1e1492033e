//! `hal::sync` for simulations: the names and semantics of the standard library's primitives, over a scheduler that a seed
//! decides.
//!
//! A thread of a simulation is a thread of the system, but only one of them runs at a time. Each access to a primitive is a point
//! at which the scheduler may give the turn to another thread (`turn`), and a thread that waits gives up its turn. Time is
//! virtual: it passes with each point, and jumps to the next deadline when all threads wait. If there is no deadline either, the
//! threads wait for ever, and the simulation halts with that answer ([`Halt`]).
//!
//! Threads that belong to no simulation get the standard library's primitives.

pub mod atomic;
mod condvar;
mod core;
mod faults;
pub mod mpsc;
mod mutex;
mod once;
mod random;
mod simulation;
pub mod thread;
pub mod time;
mod turn;

pub use self::core::{Halt, Settings};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use faults::{Fault, FaultKind};
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceLock;
pub use random::Random;
pub use simulation::{Outcome, run};
pub use std::sync::LazyLock;
pub use std::thread_local;
pub use turn::process;

#[cfg(test)]
mod tests;
