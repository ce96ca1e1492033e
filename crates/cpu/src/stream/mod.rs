//! Streams of the host: [`inline`] runs work on the calling thread, [`queue`] on a separate thread.
//!
//! The host is the device, so a compute stream gains nothing from a queue: a call has run when it returns. A
//! communication stream runs on a worker thread, so that collectives overlap with compute, and so does the compute stream of a
//! device beside another one. [`event`] marks
//! points in either kind.

mod event;
mod inline;
mod queue;

pub(crate) use event::now_us;
pub(crate) use queue::cancelled;

use crate::pool::Pool;
use event::{Passed, QueueEvent};
use hal::{DeviceId, Error, Event, RawBuffer, Result, Stream, StreamKind, lock, sync::Mutex};
use inline::Inline;
use queue::Queue;
use std::any::Any;
use std::sync::Arc;

/// A stream of this vendor.
#[derive(Debug)]
pub(crate) struct HostStream {
    device: DeviceId,
    kind: StreamKind,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Inline(Inline),
    Queue(Queue),
}

impl HostStream {
    /// A stream of that kind.
    pub(crate) fn new(device: DeviceId, kind: StreamKind) -> HostStream {
        let engine = match kind {
            // The host is the device, so such copies would only wait for a thread of their own.
            StreamKind::Compute | StreamKind::Host | StreamKind::Files => {
                Engine::Inline(Inline::default())
            }
            StreamKind::Communication => return HostStream::queued(device, kind),
        };
        HostStream {
            device,
            kind,
            engine,
        }
    }

    /// A stream of that kind whose work runs on a thread of its own.
    pub(crate) fn queued(device: DeviceId, kind: StreamKind) -> HostStream {
        HostStream {
            device,
            kind,
            engine: Engine::Queue(Queue::new(device)),
        }
    }

    /// The stream behind the seam's trait object.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream of another vendor.
    pub(crate) fn of(stream: &dyn Stream) -> Result<&HostStream> {
        stream.as_any().downcast_ref().ok_or_else(|| {
            let found = format!("one of {}", stream.device_id());
            Error::invalid("stream", found, "one of the cpu vendor")
        })
    }

    /// Runs a job, or queues it.
    ///
    /// # Errors
    /// The stream's earlier failure, or the job's own when it runs at once.
    pub(crate) fn submit(&self, job: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        match &self.engine {
            Engine::Inline(inline) => inline.run(job),
            Engine::Queue(queue) => queue.submit(Box::new(job)),
        }
    }

    /// Runs or queues a kernel or GEMM; its arguments are copied only if they must outlive the call.
    ///
    /// # Safety
    /// The requirements of `work` hold until the work has run.
    ///
    /// # Errors
    /// As [`submit`](HostStream::submit).
    pub(crate) unsafe fn launch<A: Clone + Send + 'static>(
        &self,
        arguments: &A,
        pool: &Arc<Pool>,
        work: unsafe fn(&A, &Pool) -> Result<()>,
    ) -> Result<()> {
        match &self.engine {
            // SAFETY: the caller guarantees the requirements of `work`.
            Engine::Inline(inline) => inline.run(|| unsafe { work(arguments, pool) }),
            Engine::Queue(queue) => {
                let (arguments, pool) = (arguments.clone(), pool.clone());
                // SAFETY: the caller guarantees the requirements of `work` until the job has run.
                queue.submit(Box::new(move || unsafe { work(&arguments, &pool) }))
            }
        }
    }

    fn check(&self) -> Result<()> {
        match &self.engine {
            Engine::Inline(inline) => inline.check(),
            Engine::Queue(queue) => queue.check(),
        }
    }
}

// SAFETY: both engines run jobs one after another in the order of submission; the engine makes events at the
// point that they mark; the id is the one with which the stream was made.
unsafe impl Stream for HostStream {
    fn device_id(&self) -> DeviceId {
        self.device
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> StreamKind {
        self.kind
    }

    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()> {
        self.submit(move || {
            // SAFETY: the caller guarantees both regions until the copy has run, for equal sizes and no overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(src.addr as *const u8, dst.addr as *mut u8, src.bytes)
            };
            Ok(())
        })
    }

    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()> {
        let write = move |src: &[u8]| {
            // SAFETY: the caller guarantees that `dst` is live until the copy has run and holds exactly `src.len()` bytes.
            unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst.addr as *mut u8, src.len()) };
            Ok(())
        };
        match &self.engine {
            Engine::Inline(inline) => inline.run(|| write(src)),
            Engine::Queue(queue) => {
                let src = src.to_vec();
                queue.submit(Box::new(move || write(&src)))
            }
        }
    }

    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()> {
        // SAFETY: the caller guarantees that `src` is live and holds exactly `dst.len()` bytes; order in the stream keeps
        // writers away.
        let bytes = move || unsafe { host_bytes(src) };
        match &self.engine {
            Engine::Inline(inline) => inline.run(|| {
                dst.copy_from_slice(bytes());
                Ok(())
            }),
            Engine::Queue(queue) => {
                let content = Arc::new(Mutex::new(Vec::new()));
                let target = content.clone();
                queue.submit(Box::new(move || {
                    *lock(&target) = bytes().to_vec();
                    Ok(())
                }))?;
                queue.synchronize()?;
                dst.copy_from_slice(&lock(&content));
                Ok(())
            }
        }
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        match &self.engine {
            Engine::Inline(inline) => {
                inline.check()?;
                Ok(Arc::new(Passed::now()))
            }
            Engine::Queue(queue) => queue.record(),
        }
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        let event = event.as_any();
        if let Some(QueueEvent(marker)) = event.downcast_ref() {
            match &self.engine {
                Engine::Queue(queue) if marker.outcome().is_none() => queue.wait(marker.clone()),
                // A point passed long ago, or a stream that runs inline on the host.
                _ => marker.until_passed().and_then(|()| self.check()),
            }
        } else if event.is::<Passed>() {
            self.check()
        } else {
            let needed = "one of the cpu vendor";
            Err(Error::invalid("wait", "an event of another vendor", needed))
        }
    }

    fn synchronize(&self) -> Result<()> {
        match &self.engine {
            Engine::Inline(inline) => inline.check(),
            Engine::Queue(queue) => queue.synchronize(),
        }
    }
}

/// # Safety
/// `buffer` is live, and nothing writes to it while the bytes are in use.
unsafe fn host_bytes<'a>(buffer: RawBuffer) -> &'a [u8] {
    if buffer.bytes == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees the region; the allocator hands it out initialised.
    unsafe { std::slice::from_raw_parts(buffer.addr as *const u8, buffer.bytes) }
}

/// # Safety
/// `buffer` is live, and nothing else uses it while the bytes are in use.
pub(crate) unsafe fn host_bytes_mut<'a>(buffer: RawBuffer) -> &'a mut [u8] {
    if buffer.bytes == 0 {
        return &mut [];
    }
    // SAFETY: the caller guarantees the region; the allocator hands it out initialised.
    unsafe { std::slice::from_raw_parts_mut(buffer.addr as *mut u8, buffer.bytes) }
}

#[cfg(test)]
mod tests;
