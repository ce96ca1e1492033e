//! A condition variable, whose waits in a simulation end when they are notified, at their limit, or for no reason.

use super::mutex::{Mutex, MutexGuard};
use super::turn;
use std::sync::LockResult;
use std::time::Duration;

/// The standard library's condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    // Not zero-sized, so that its address is its own.
    outside: std::sync::Condvar,
}

/// Whether a wait has ended at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it has.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar {
            outside: std::sync::Condvar::new(),
        }
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        match turn::own() {
            Some(own) => {
                own.point();
                own.wake_all(self.key());
            }
            None => self.outside.notify_all(),
        }
    }

    /// Wakes one waiting thread, any of them.
    pub fn notify_one(&self) {
        match turn::own() {
            Some(own) => {
                own.point();
                own.wake_one(self.key());
            }
            None => self.outside.notify_one(),
        }
    }

    /// Waits until notified.
    ///
    /// # Errors
    /// That a thread panicked while it held the mutex.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let Some(own) = turn::own() else {
            let (mutex, guard) = guard.into_parts();
            let guard = self.outside.wait(guard);
            let guard = guard.unwrap_or_else(std::sync::PoisonError::into_inner);
            return Ok(MutexGuard::from_parts(mutex, guard));
        };
        // No other thread runs between the two, so no notification is lost.
        let mutex = guard.release();
        own.wait("a notification", self.key(), None);
        mutex.lock()
    }

    /// Waits until notified, but no longer than `limit`.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let Some(own) = turn::own() else {
            let (mutex, guard) = guard.into_parts();
            let waited = self.outside.wait_timeout(guard, limit);
            let (guard, ended) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            let guard = MutexGuard::from_parts(mutex, guard);
            return Ok((guard, WaitTimeoutResult(ended.timed_out())));
        };
        let mutex: &Mutex<T> = guard.release();
        let expired = own.wait("a notification", self.key(), Some(limit));
        let with = |guard| (guard, WaitTimeoutResult(expired));
        match mutex.lock() {
            Ok(guard) => Ok(with(guard)),
            Err(poisoned) => Err(std::sync::PoisonError::new(with(poisoned.into_inner()))),
        }
    }

    /// Waits while the condition holds, but no longer than `limit`.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let begun = super::time::Instant::now();
        while waits(&mut guard) {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            (guard, _) = self.wait_timeout(guard, left)?;
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
