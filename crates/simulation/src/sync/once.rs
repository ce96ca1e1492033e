//! A value that is set once, by a thread that may lose its turn meanwhile.

use super::turn;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The standard library's cell.
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_being_set: AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_being_set: AtomicBool::new(false),
        }
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<&T> {
        turn::point();
        self.value.get()
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

    /// The value, which `make` makes unless it is set.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let Some(own) = turn::own() else {
            return self.value.get_or_init(make);
        };
        own.point();
        let key = std::ptr::from_ref(&self.is_being_set).addr();
        loop {
            if let Some(value) = self.value.get() {
                return value;
            }
            if !self.is_being_set.swap(true, Relaxed) {
                break;
            }
            own.wait("a value being set", key, None);
        }
        let setting = Setting(&self.is_being_set);
        let value = make();
        // Nobody else sets it: `is_being_set` is ours.
        let value = self.value.get_or_init(|| value);
        drop(setting);
        value
    }
}

// Ends the setting, also by a panic.
struct Setting<'a>(&'a AtomicBool);

impl Drop for Setting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
        if let Some(own) = turn::own() {
            own.wake_all(std::ptr::from_ref(self.0).addr());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
