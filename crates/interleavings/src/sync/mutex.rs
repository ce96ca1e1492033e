//! A mutex whose guard knows it, so that a wait that expires can lock it again.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

/// The standard library's mutex, except that it is never poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(loom::sync::Mutex<T>);

/// The right to use what the mutex guards.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) mutex: &'a Mutex<T>,
    pub(super) guard: loom::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Whether a thread panicked while it held the mutex, which no model does.
    pub fn is_poisoned(&self) -> bool {
        false
    }

    /// The value.
    ///
    /// # Errors
    /// None.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and takes it.
    ///
    /// # Errors
    /// None.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(MutexGuard { mutex: self, guard })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
