//! Controls which threads may call into MPI, and ends all calls for good.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Open while data may move. Once it is closed, none of our calls lets MPI touch a buffer again, so that
/// buffers of unfinished messages can be freed. The job then ends without those messages.
#[derive(Debug)]
pub(crate) struct Gate(RwLock<bool>);

impl Gate {
    /// An open gate.
    pub(crate) fn new() -> Gate {
        Gate(RwLock::new(true))
    }

    /// Keeps the gate open while the guard lives; `None` once it is closed.
    pub(crate) fn enter(&self) -> Option<RwLockReadGuard<'_, bool>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner)).filter(|open| **open)
    }

    /// Closes it once every thread inside has left.
    pub(crate) fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}
