//! Controls which threads may call into MPI, and ends all calls for good.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

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

    /// Closes it if no thread is inside, and says whether it has. One that waits within MPI may never leave.
    pub(crate) fn try_close(&self) -> bool {
        match self.0.try_write() {
            Ok(mut open) => *open = false,
            Err(TryLockError::Poisoned(open)) => *open.into_inner() = false,
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}
