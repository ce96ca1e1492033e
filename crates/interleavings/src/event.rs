//! The event of a GPU, which the device completes.

use hal::Result;
use loom::sync::atomic::{AtomicBool, Ordering};

/// A point in a stream.
#[derive(Debug, Default)]
pub(crate) struct Point(AtomicBool);

impl Point {
    /// The device passes the point.
    pub(crate) fn pass(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Waits for the point, as a stream does.
    pub(crate) fn delay(&self) {
        while !self.0.load(Ordering::Acquire) {
            loom::thread::yield_now();
        }
    }

    /// Whether the device has passed the point.
    pub(crate) fn is_complete(&self) -> Result<bool> {
        Ok(self.0.load(Ordering::Acquire))
    }
}
