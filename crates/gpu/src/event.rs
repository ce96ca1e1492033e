//! Points in streams, and the clock that dates them.

use crate::{context::Context, stream::OwnedStream, table::Handle, wait};
use hal::{DeviceId, Error, Event, Result, Stopwatch, lock};
use std::{
    any::Any,
    sync::{Arc, Condvar, Mutex, Weak},
    time::Duration,
};

/// An event of the vendor, which returns to the context's pool when dropped.
#[derive(Debug)]
pub(crate) struct Point {
    context: Arc<Context>,
    handle: Handle,
}

impl Point {
    /// An event that has not been recorded.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Point> {
        Ok(Point {
            context: context.clone(),
            handle: context.take_event()?,
        })
    }

    /// Marks the point that `stream` has reached.
    pub(crate) fn record(&self, stream: Handle) -> Result<()> {
        // SAFETY: the event is live; the stream is the caller's.
        self.context
            .call(|runtime| unsafe { runtime.record(self.handle, stream) })
    }

    /// Makes `stream`, of this or another device, wait for the point.
    pub(crate) fn delay(&self, context: &Context, stream: Handle) -> Result<()> {
        // SAFETY: the event is live and was recorded; the stream is the caller's.
        context.call(|runtime| unsafe { runtime.wait_event(stream, self.handle) })
    }

    /// Whether the point has been passed.
    pub(crate) fn is_complete(&self) -> Result<bool> {
        // SAFETY: the event is live.
        self.context
            .call(|runtime| unsafe { runtime.event_is_complete(self.handle) })
    }

    /// Waits until the point has been passed.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is live.
        wait::until(&self.context, |runtime| unsafe {
            runtime.event_is_complete(self.handle)
        })
    }

    /// Microseconds from `self` to `end`; both have been passed.
    pub(crate) fn until_us(&self, end: &Point) -> Result<f64> {
        // SAFETY: both events are live.
        let elapsed = self
            .context
            .call(|runtime| unsafe { runtime.elapsed_ms(self.handle, end.handle) });
        elapsed.map(|milliseconds| f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        self.context.give_event(self.handle);
    }
}

/// Dates events in microseconds since the device was opened.
///
/// The vendor reports the distance of two events in single precision, which is too coarse after some seconds. So the
/// reference point moves along.
#[derive(Debug)]
pub(crate) struct Clock {
    // Runs no other work, so that a new reference passes at once.
    stream: OwnedStream,
    reference: Mutex<(Point, f64)>,
}

/// The reference moves once it is this far away.
const FAR_US: f64 = 2e6;

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Clock> {
        let (stream, point) = (OwnedStream::new(context, false)?, Point::new(context)?);
        point.record(stream.handle())?;
        point.synchronize()?;
        Ok(Clock {
            stream,
            reference: Mutex::new((point, 0.0)),
        })
    }

    /// The time of a point that has been passed.
    fn date(&self, point: &Point) -> Result<f64> {
        let mut reference = lock(&self.reference);
        let date = reference.1 + reference.0.until_us(point)?;
        if date - reference.1 > FAR_US {
            let now = Point::new(&point.context)?;
            now.record(self.stream.handle())?;
            now.synchronize()?;
            let moved = reference.1 + reference.0.until_us(&now)?;
            *reference = (now, moved);
        }
        Ok(date)
    }
}

/// A point in a stream of this crate. A stream with a thread records it later than it was requested.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    // For queued waits, which may outlive the seam's object.
    this: Weak<StreamEvent>,
    point: Point,
    clock: Arc<Clock>,
    // Whether it was recorded, and with what outcome.
    recorded: Mutex<Option<Result<()>>>,
    change: Condvar,
}

impl StreamEvent {
    pub(crate) fn new(context: &Arc<Context>, clock: &Arc<Clock>) -> Result<Arc<StreamEvent>> {
        let (point, clock) = (Point::new(context)?, clock.clone());
        Ok(Arc::new_cyclic(|this| {
            let (recorded, change) = Default::default();
            StreamEvent {
                this: this.clone(),
                point,
                clock,
                recorded,
                change,
            }
        }))
    }

    /// The event behind the seam's trait object.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an event of another vendor.
    pub(crate) fn of(event: &dyn Event, device: DeviceId) -> Result<&StreamEvent> {
        let own = event.as_any().downcast_ref::<StreamEvent>();
        // CUDA's events and HIP's have one type.
        own.filter(|event| event.point.context.id.vendor == device.vendor)
            .ok_or_else(|| {
                let needed = format!("one of {}", device.vendor);
                Error::invalid("wait", "an event of another vendor", needed)
            })
    }

    /// A handle that keeps the event alive.
    pub(crate) fn shared(&self) -> Arc<StreamEvent> {
        self.this
            .upgrade()
            .expect("a bug: an event that is borrowed is alive")
    }

    /// Records it on `stream`; called once.
    pub(crate) fn record(&self, stream: Handle) -> Result<()> {
        let outcome = self.point.record(stream);
        self.settle(outcome.clone());
        outcome
    }

    /// Wakes the waiters: it was recorded, or never will be.
    pub(crate) fn settle(&self, outcome: Result<()>) {
        lock(&self.recorded).get_or_insert(outcome);
        self.change.notify_all();
    }

    /// Makes `stream` wait for the point, once it is recorded.
    pub(crate) fn delay(&self, context: &Context, stream: Handle) -> Result<()> {
        self.wait_recorded()?;
        self.point.delay(context, stream)
    }

    fn wait_recorded(&self) -> Result<()> {
        let start = Stopwatch::start();
        let mut recorded = lock(&self.recorded);
        loop {
            if let Some(outcome) = &*recorded {
                return outcome.clone();
            }
            let nap = Duration::from_millis(10);
            recorded = self
                .change
                .wait_timeout(recorded, nap)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
            if recorded.is_none() {
                self.point.context.watch(start.elapsed())?;
            }
        }
    }
}

// SAFETY: the vendor's event completes only when all work before it has; an event that is not recorded counts as not
// passed.
unsafe impl Event for StreamEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_complete(&self) -> Result<bool> {
        match lock(&self.recorded).clone() {
            None => Ok(false),
            Some(outcome) => outcome.and_then(|()| self.point.is_complete()),
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.wait_recorded()?;
        self.point.synchronize()
    }

    fn time_us(&self) -> Result<Option<f64>> {
        if self.is_complete()? {
            self.clock.date(&self.point).map(Some)
        } else {
            Ok(None)
        }
    }
}
