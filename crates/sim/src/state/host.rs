//! A rank's host, as the threads of other ranks see it.

use hal::lock::{lock, wait_timeout_while};
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The clock of a rank's host, and the condition variable that wakes it.
#[derive(Debug, Default)]
pub(crate) struct Host {
    clock: AtomicU64,
    news: Mutex<u64>,
    bell: Condvar,
}

impl Host {
    /// Seconds on the host's clock: nothing that it launches from now on starts earlier.
    pub(crate) fn clock(&self) -> f64 {
        f64::from_bits(self.clock.load(Ordering::Acquire))
    }

    pub(super) fn set_clock(&self, seconds: f64) {
        self.clock.store(seconds.to_bits(), Ordering::Release);
    }

    /// Notifies the rank that something it may wait for has arrived.
    pub(crate) fn tell(&self) {
        *lock(&self.news) += 1;
        self.bell.notify_all();
    }

    /// Number of notifications so far, for [`wait`](Host::wait).
    pub(super) fn news(&self) -> u64 {
        *lock(&self.news)
    }

    /// Waits for a notification after the first `seen`, for at most about `limit`.
    pub(super) fn wait(&self, seen: u64, limit: Duration) {
        let guard = lock(&self.news);
        drop(wait_timeout_while(&self.bell, guard, limit, |news| {
            *news == seen
        }));
    }
}
