//! Queues of work, and the events that order them.

use crate::{DeviceId, Error, RawBuffer, Result};
use std::{any::Any, fmt, sync::Arc};

/// The purpose of a stream; a vendor may give kinds different priorities or mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// GEMMs and kernels.
    Compute,
    /// Collectives and messages that should run beside compute.
    Communication,
    /// Copies to or from memory of the host that should run beside compute.
    Host,
    /// The same, where the host reads or writes files for them.
    Files,
}

/// A queue whose work runs in order.
///
/// # Safety
/// Work queued on one stream runs in the order in which it was queued. Work queued after [`wait`](Stream::wait)
/// runs after the event. An event is complete only when all work queued before it is.
pub unsafe trait Stream: Send + Sync + fmt::Debug {
    /// The device on which the work runs.
    fn device_id(&self) -> DeviceId;

    /// The stream as the vendor's own type, to which that vendor's objects downcast it.
    fn as_any(&self) -> &dyn Any;

    /// The purpose of the stream.
    fn kind(&self) -> StreamKind;

    /// Queues a copy within the device.
    ///
    /// # Safety
    /// Both regions are live until the copy has run, are of equal size, and do not overlap.
    ///
    /// # Errors
    /// [`Error::Vendor`]; the earlier failure of the stream, if any.
    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()>;

    /// Queues a copy from the host; `src` may be reused as soon as the call returns.
    ///
    /// # Safety
    /// `dst` is live until the copy has run and holds exactly `src.len()` bytes.
    ///
    /// # Errors
    /// As [`copy`](Stream::copy).
    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()>;

    /// Copies to the host, after all work queued so far; the host waits. On a device whose buffers hold no values the time
    /// of the copy may pass before it fails.
    ///
    /// # Safety
    /// `src` is live and holds exactly `dst.len()` bytes.
    ///
    /// # Errors
    /// [`Error::NoValues`] on a device whose buffers hold no values; the failure of the stream's work, if any.
    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()>;

    /// Marks the point that the queue has reached.
    ///
    /// # Errors
    /// [`Error::Vendor`]; the earlier failure of the stream, if any.
    fn record(&self) -> Result<Arc<dyn Event>>;

    /// Makes work queued from now on wait for `event`; the host does not wait, unless it is itself the device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an event of another vendor; the earlier failure of this stream or of the event's, if
    /// any.
    fn wait(&self, event: &dyn Event) -> Result<()>;

    /// Waits, on the host, for everything queued so far.
    ///
    /// # Errors
    /// The first failure of queued work.
    fn synchronize(&self) -> Result<()>;

    /// Records the work that `work` queues on this stream, instead of running it.
    ///
    /// Within `work`, only kernels, GEMMs and copies between device memory may be queued, on no other stream.
    /// The host may not wait, and no memory may be allocated. The same work has run before, so that everything
    /// it needs has been made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream that cannot record, and for a device without
    /// [`Capabilities::records_work`](crate::Capabilities::records_work); the failure of `work`;
    /// [`Error::Vendor`] if something was queued that cannot be recorded.
    fn capture(&self, _work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>> {
        Err(Error::invalid(
            "recorded work",
            self.device_id().to_string(),
            "a device that records it: CUDA or ROCm",
        ))
    }
}

/// The recorded work of a stream.
///
/// # Safety
/// [`launch`](Recording::launch) queues exactly what was recorded.
pub unsafe trait Recording: fmt::Debug {
    /// Queues all of it on a stream of the device on which it was recorded.
    ///
    /// # Safety
    /// All memory that the work uses is live until it has run.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream of another vendor; [`Error::Vendor`].
    unsafe fn launch(&self, stream: &dyn Stream) -> Result<()>;
}

/// A point in a stream.
///
/// # Safety
/// [`is_complete`](Event::is_complete) returns true only when all work before the point has run, or will never
/// run because the stream failed.
pub unsafe trait Event: Send + Sync + fmt::Debug {
    /// The event as the vendor's own type.
    fn as_any(&self) -> &dyn Any;

    /// Whether the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if any.
    fn is_complete(&self) -> Result<bool>;

    /// Waits, on the host, until the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if any.
    fn synchronize(&self) -> Result<()>;

    /// The time at which the stream passed the point, in microseconds since the device was opened; `None` if it
    /// has not passed.
    ///
    /// # Errors
    /// [`Error::Vendor`] if the device does not answer.
    fn time_us(&self) -> Result<Option<f64>>;
}
