//! Points in streams, and the clock for their times.

use crate::wait::Signal;
use hal::sync::OnceLock;
use hal::{Error, Event, Result};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Microseconds since the first call in this process, so that the clocks of all ranks agree.
pub(crate) fn now_us() -> f64 {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed().as_secs_f64() * 1e6
}

/// A point that its stream had passed when it was marked.
#[derive(Debug)]
pub(super) struct Passed {
    time_us: f64,
}

impl Passed {
    /// The present.
    pub(super) fn now() -> Passed {
        Passed { time_us: now_us() }
    }
}

// SAFETY: made only where all earlier work has run.
unsafe impl Event for Passed {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn time_us(&self) -> Result<Option<f64>> {
        Ok(Some(self.time_us))
    }
}

/// A point in a queue that its worker will pass.
#[derive(Debug, Default)]
pub(super) struct Marker {
    passed: OnceLock<(f64, Result<()>)>,
    signal: Signal,
}

impl Marker {
    /// Records that the stream has reached this point and whether it had failed before, and wakes all waiters.
    pub(super) fn pass(&self, outcome: Result<()>) {
        let first = self.passed.set((now_us(), outcome)).is_ok();
        debug_assert!(first, "a bug: a stream passed the same point twice");
        self.signal.raise();
    }

    /// The stream's outcome, once it has passed.
    pub(super) fn outcome(&self) -> Option<Result<()>> {
        self.passed.get().map(|(_, outcome)| outcome.clone())
    }

    /// Waits up to about `limit` for the stream's outcome.
    pub(super) fn wait(&self, limit: Duration) -> Option<Result<()>> {
        let seen = self.signal.seen();
        if self.passed.get().is_none() {
            self.signal.wait(seen, limit);
        }
        self.outcome()
    }

    /// Waits for the stream's outcome, however long that takes.
    pub(super) fn until_passed(&self) -> Result<()> {
        loop {
            if let Some(outcome) = self.wait(Duration::from_secs(3600)) {
                return outcome;
            }
        }
    }
}

/// The event of a queue.
#[derive(Debug)]
pub(super) struct QueueEvent(pub(super) Arc<Marker>);

// SAFETY: the worker passes the marker after everything queued before it, or once the stream has failed and
// none of that work will run.
unsafe impl Event for QueueEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_complete(&self) -> Result<bool> {
        self.0
            .outcome()
            .map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn synchronize(&self) -> Result<()> {
        self.0.until_passed()
    }

    fn time_us(&self) -> Result<Option<f64>> {
        Ok(self.0.passed.get().map(|(time_us, _)| *time_us))
    }
}

/// The failure of work that ended in a panic.
pub(super) fn panicked(device: hal::DeviceId, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let reason = format!("panicked: {}", text.unwrap_or("without a message"));
    Error::Vendor {
        call: "queued work".into(),
        code: -1,
        reason,
        device,
    }
}
