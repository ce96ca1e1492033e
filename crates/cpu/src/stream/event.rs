//! Points in streams, and the clock that dates them.

use crate::wait::{Signal, lock};
use hal::{Error, Event, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Microseconds since the process first asked, so that the clocks of all ranks agree.
pub(crate) fn now_us() -> f64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
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
    fn raw(&self) -> u64 {
        0
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

/// Markers that have not been passed, so that a stream can wait for one of which it sees only the number.
static PENDING: Mutex<BTreeMap<u64, Arc<Marker>>> = Mutex::new(BTreeMap::new());

/// The marker behind the raw handle of an event, while it has not been passed.
pub(super) fn pending(raw: u64) -> Option<Arc<Marker>> {
    lock(&PENDING).get(&raw).cloned()
}

/// A point in a queue that its worker will pass.
#[derive(Debug)]
pub(super) struct Marker {
    number: u64,
    passed: OnceLock<(f64, Result<()>)>,
    signal: Signal,
}

impl Marker {
    /// A marker that [`pending`] finds until it is passed.
    pub(super) fn new() -> Arc<Marker> {
        // Above every address, so that no handle of another vendor is mistaken for one of these.
        static NEXT: AtomicU64 = AtomicU64::new(0xfa5c_0000_0000_0000);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let marker = Arc::new(Marker {
            number,
            passed: OnceLock::new(),
            signal: Signal::default(),
        });
        lock(&PENDING).insert(number, marker.clone());
        marker
    }

    /// Tells everyone that the stream is here, and whether it had failed before.
    pub(super) fn pass(&self, outcome: Result<()>) {
        let first = self.passed.set((now_us(), outcome)).is_ok();
        debug_assert!(first, "a bug: a stream passed the same point twice");
        lock(&PENDING).remove(&self.number);
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
}

/// The event of a queue.
#[derive(Debug)]
pub(super) struct QueueEvent(pub(super) Arc<Marker>);

// SAFETY: the worker passes the marker after everything queued before it, or once the stream has failed and none of that
// will run.
unsafe impl Event for QueueEvent {
    fn raw(&self) -> u64 {
        self.0.number
    }

    fn is_complete(&self) -> Result<bool> {
        self.0
            .outcome()
            .map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn synchronize(&self) -> Result<()> {
        loop {
            if let Some(outcome) = self.0.wait(Duration::from_secs(3600)) {
                return outcome;
            }
        }
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
