//! The standard library's primitives for threads, as every hand-written signal, round, channel and queue of Fascicle
//! names them.
//!
//! They come through this module so that `crates/interleavings` can compile the same source files over primitives
//! whose interleavings a model checker explores, and `crates/simulation` whole jobs over a scheduler that a seed decides
//! (`--cfg fascicle_simulated`). Here they are the standard library's own types.

pub use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, OnceLock};
pub use std::thread_local;

/// Channels between threads.
pub mod mpsc {
    pub use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
}

/// Atomic integers and flags.
pub mod atomic {
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
}

/// Threads.
pub mod thread {
    pub use std::thread::{Builder, JoinHandle, current, panicking, scope, sleep, yield_now};
}

/// The clock by which waits end.
pub mod time {
    pub use std::time::Instant;
}
