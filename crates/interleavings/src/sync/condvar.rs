//! A condition variable whose waits end as the model chooses.

use super::{MutexGuard, Waits, time, waits};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

/// The standard library's condition variable.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits once; returns whether the limit has passed.
    ///
    /// # Errors
    /// None: loom's locks are not poisoned.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        match waits() {
            Waits::Notified => Ok((self.wait(guard), false)),
            Waits::Expire => Ok((expire(guard, limit), true)),
        }
    }

    /// Waits while the condition holds; returns whether the limit has passed.
    ///
    /// # Errors
    /// As [`wait_timeout`](Condvar::wait_timeout).
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        while waits(&mut guard) {
            let (woken, expired) = self.wait_timeout(guard, limit)?;
            guard = woken;
            if expired {
                return Ok((guard, true));
            }
        }
        Ok((guard, false))
    }

    fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { mutex, guard } = guard;
        let guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { mutex, guard }
    }
}

// The yield lets loom try the others first; otherwise it would explore endless expiries.
fn expire<T>(guard: MutexGuard<'_, T>, limit: Duration) -> MutexGuard<'_, T> {
    let mutex = guard.mutex;
    drop(guard);
    time::advance(limit);
    loom::thread::yield_now();
    hal::lock(mutex)
}
