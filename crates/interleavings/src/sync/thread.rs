//! Threads, of which a model decides which are unwinding.

pub use loom::thread::{Builder, JoinHandle, current, yield_now};

use std::cell::Cell;

// All threads of a model share one thread of the host, whose own answer would hold for all of them.
loom::thread_local! {
    static UNWINDING: Cell<bool> = Cell::new(false);
}

/// Whether the calling thread unwinds from a panic.
pub fn panicking() -> bool {
    UNWINDING.with(Cell::get)
}

/// Runs `drops` as a thread that unwinds from a panic.
pub fn unwinding(drops: impl FnOnce()) {
    UNWINDING.with(|unwinding| unwinding.set(true));
    drops();
    UNWINDING.with(|unwinding| unwinding.set(false));
}
