//! Values that are set once.

use super::execution;
use loom::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex as HostMutex, PoisonError};

/// The standard library's cell: a thread that finds it being set waits until it is.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_set: AtomicBool::new(false),
        }
    }
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<&T> {
        self.is_set
            .load(Ordering::Acquire)
            .then(|| self.value.get())
            .flatten()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// `value`, if another was set before.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut given = Some(value);
        self.get_or_init(|| given.take().expect("a cell asks for one value"));
        given.map_or(Ok(()), Err)
    }

    /// The value, which `make` makes unless it is set. Nothing that `make` does may switch threads.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let mut is_first = false;
        let value = self.value.get_or_init(|| {
            is_first = true;
            make()
        });
        if is_first {
            self.is_set.store(true, Ordering::Release);
        }
        while !self.is_set.load(Ordering::Acquire) {
            loom::thread::yield_now();
        }
        value
    }
}

/// The standard library's lazy static, with one value for each execution of a model.
pub struct LazyLock<T: 'static> {
    make: fn() -> T,
    // Leaked, because loom's objects must not be dropped outside the execution that made them.
    values: HostMutex<BTreeMap<u64, &'static T>>,
}

impl<T> LazyLock<T> {
    /// A value that its first user makes.
    pub const fn new(make: fn() -> T) -> Self {
        LazyLock {
            make,
            values: HostMutex::new(BTreeMap::new()),
        }
    }
}

impl<T> Deref for LazyLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || &*Box::leak(Box::new((self.make)()));
        values.entry(execution()).or_insert_with(new)
    }
}
