//! `hal::sync` for models: loom's primitives, with the names and semantics of the standard library's.
//!
//! Loom has no timeouts. Here a model chooses between two extremes ([`Waits`]), because a real wait that may end early
//! or late behaves like one of them at each of its turns.

mod condvar;
mod mutex;
mod once;
pub mod thread;
pub mod time;

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use once::{LazyLock, OnceLock};

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The standard library's macro for one constant initialiser, which loom's does not read.
macro_rules! local_of_thread {
    (static $name:ident: $type:ty = const $init:block;) => {
        loom::thread_local! { static $name: $type = $init; }
    };
}
pub(crate) use local_of_thread as thread_local;

/// Atomic integers and flags.
pub mod atomic {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
}

/// How waits with a limit end in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Only when notified, so that a lost wake-up is a deadlock, which loom reports.
    Notified,
    /// Only at their limit, which the others may precede by any number of steps.
    Expire,
}

// Loom runs all threads of a model on the thread that explores it.
std::thread_local! {
    static WAITS: Cell<Waits> = const { Cell::new(Waits::Notified) };
    static EXECUTION: Cell<u64> = const { Cell::new(0) };
}

/// Runs `body` in every interleaving in which the scheduler preempts a thread at most `preemptions` times.
///
/// # Panics
/// If one of them panics, deadlocks, or accesses a cell in two threads without an order.
pub fn explore(waits: Waits, preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
    WAITS.set(waits);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(move || {
        EXECUTION.set(EXECUTIONS.fetch_add(1, Ordering::Relaxed) + 1);
        body();
    });
}

/// Runs `body` with waits of both kinds.
///
/// # Panics
/// As [`explore`].
pub fn explore_both(preemptions: usize, body: impl Fn() + Clone + Send + Sync + 'static) {
    explore(Waits::Notified, preemptions, body.clone());
    explore(Waits::Expire, preemptions, body);
}

fn waits() -> Waits {
    WAITS.get()
}

// Distinguishes this execution of a model from all others of the process.
fn execution() -> u64 {
    EXECUTION.get()
}
