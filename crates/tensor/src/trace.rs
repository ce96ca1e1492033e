//! Spans of work on streams, for a timeline of a step.
//!
//! While tracing is on, every piece of queued work is enclosed by two events. Their times are read when the
//! spans are collected, so tracing does not delay the device.

use crate::{Device, Event, Stream};
use hal::Result;

/// A piece of work on a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Name of the operation.
    pub name: &'static str,
    /// Name of the stream.
    pub stream: String,
    /// The process group of a collective, such as `axis x (main)`.
    pub group: Option<String>,
    /// Start, in microseconds since the device was opened.
    pub start_us: f64,
    /// Duration in microseconds.
    pub duration_us: f64,
    /// Bytes that the work writes.
    pub bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Tracer {
    open: Vec<QueuedWork>,
}

#[derive(Debug)]
struct QueuedWork {
    name: &'static str,
    stream: Stream,
    group: Option<String>,
    start: Event,
    end: Event,
    bytes: usize,
}

/// Starts recording spans on `device`.
pub fn start(device: &Device) {
    *device.0.tracer.borrow_mut() = Some(Tracer::default());
}

/// Stops recording and returns the spans, after all their work has run.
///
/// # Errors
/// The failure of a stream; [`Error::Vendor`](hal::Error::Vendor) if the device does not report a time.
pub fn finish(device: &Device) -> Result<Vec<Span>> {
    device.compute().release()?;
    let tracer = device.0.tracer.borrow_mut().take().unwrap_or_default();
    tracer.open.into_iter().map(close).collect()
}

fn close(work: QueuedWork) -> Result<Span> {
    work.end.synchronize()?;
    let start_us = work.start.time_us()?.unwrap_or(0.0);
    let duration_us = work.end.time_us()?.unwrap_or(start_us) - start_us;
    Ok(Span {
        name: work.name,
        stream: work.stream.name().into(),
        group: work.group,
        start_us,
        duration_us,
        bytes: work.bytes,
    })
}

/// Names the group of the collective that was queued last.
pub(crate) fn of_group(device: &Device, label: &str) {
    if let Some(tracer) = device.0.tracer.borrow_mut().as_mut()
        && let Some(last) = tracer.open.last_mut()
    {
        last.group = Some(label.to_owned());
    }
}

/// Calls `queue`, which queues work. While tracing is on, records a span around it, with its name and the bytes that it writes.
pub(crate) fn span(
    device: Option<&Device>,
    stream: &Stream,
    (name, bytes): (&'static str, impl FnOnce() -> usize),
    queue: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(device) = device.filter(|device| device.0.tracer.borrow().is_some()) else {
        return queue();
    };
    let start = stream.mark()?;
    queue()?;
    let end = stream.mark()?;
    if let Some(tracer) = device.0.tracer.borrow_mut().as_mut() {
        tracer.open.push(QueuedWork {
            name,
            stream: stream.clone(),
            group: None,
            start,
            end,
            bytes: bytes(),
        });
    }
    Ok(())
}
