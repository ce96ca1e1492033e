//! A mutex for which threads of a simulation wait by giving up their turn.

use super::turn;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError};

/// The standard library's mutex.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    /// Whether a thread of a simulation holds it. Threads of a simulation run one at a time, so whoever finds `false` may take
    /// `inner` at once.
    is_held: AtomicBool,
    inner: std::sync::Mutex<T>,
}

/// The right to use what the mutex guards.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    // Nothing only while this is being dropped.
    guard: Option<std::sync::MutexGuard<'a, T>>,
    is_simulated: bool,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            is_held: AtomicBool::new(false),
            inner: std::sync::Mutex::new(value),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// That a thread panicked while it held the mutex.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and takes it.
    ///
    /// # Errors
    /// That a thread panicked while it held the mutex.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let is_simulated = match turn::own() {
            Some(own) => {
                own.point();
                while self.is_held.swap(true, Relaxed) {
                    own.wait("a lock", self.key(), None);
                }
                own.hold(1);
                true
            }
            None => false,
        };
        let with = |guard| MutexGuard {
            mutex: self,
            guard: Some(guard),
            is_simulated,
        };
        match self.inner.lock() {
            Ok(guard) => Ok(with(guard)),
            Err(poisoned) => Err(PoisonError::new(with(poisoned.into_inner()))),
        }
    }

    /// Whether a thread panicked while it held the mutex.
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.is_held).addr()
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex, which is free again.
    pub(super) fn release(self) -> &'a Mutex<T> {
        self.mutex
    }

    /// The mutex, and the standard library's guard, for a wait outside a simulation.
    pub(super) fn into_parts(mut self) -> (&'a Mutex<T>, std::sync::MutexGuard<'a, T>) {
        let guard = self.guard.take().expect("a guard that is not dropped");
        (self.mutex, guard)
    }

    /// The reverse of [`into_parts`](MutexGuard::into_parts).
    pub(super) fn from_parts(mutex: &'a Mutex<T>, guard: std::sync::MutexGuard<'a, T>) -> Self {
        MutexGuard {
            mutex,
            guard: Some(guard),
            is_simulated: false,
        }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.guard.take());
        if self.is_simulated {
            self.mutex.is_held.store(false, Relaxed);
            if let Some(own) = turn::own() {
                own.hold(-1);
                own.wake_all(self.mutex.key());
            }
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("a guard that is not dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("a guard that is not dropped")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
