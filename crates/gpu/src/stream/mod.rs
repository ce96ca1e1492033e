//! Streams: the vendor's queue and the memory that belongs to it.
//!
//! [`core`] is the vendor's stream with its pinned staging ([`staging`]) and scratch memory ([`scratch`]). A stream
//! queues its work directly, with one exception. The host takes part in staged collectives, so with these a
//! communication stream has a thread of its own ([`worker`]) that does the waiting.

mod core;
mod scratch;
mod staging;
mod worker;

pub(crate) use self::core::{Core, OwnedStream};

use crate::{
    context::Context,
    event::{Clock, StreamEvent},
    graph::Graph,
    table::Handle,
};
use hal::{DeviceId, Error, Event, RawBuffer, Recording, Result, Stream, StreamKind};
use std::{any::Any, sync::Arc};
use worker::Worker;

/// A stream of this crate.
#[derive(Debug)]
pub(crate) struct GpuStream {
    // Dropped first: its thread ends before the stream that it feeds.
    worker: Option<Worker>,
    core: Arc<Core>,
    clock: Arc<Clock>,
    kind: StreamKind,
}

impl GpuStream {
    /// A stream of that kind. A queued stream has a thread that feeds it.
    pub(crate) fn new(
        context: &Arc<Context>,
        clock: &Arc<Clock>,
        kind: StreamKind,
        queued: bool,
    ) -> Result<GpuStream> {
        let core = Arc::new(Core::new(context, kind == StreamKind::Communication)?);
        let worker = queued.then(|| Worker::new(core.clone())).transpose()?;
        Ok(GpuStream {
            worker,
            core,
            clock: clock.clone(),
            kind,
        })
    }

    /// A live stream of this context that something else has made.
    pub(crate) fn adopted(context: &Arc<Context>, clock: &Arc<Clock>, handle: Handle) -> GpuStream {
        GpuStream {
            worker: None,
            core: Arc::new(Core::adopted(context, handle)),
            clock: clock.clone(),
            kind: StreamKind::Compute,
        }
    }

    /// The stream behind the seam's trait object.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream of another vendor.
    pub(crate) fn of(stream: &dyn Stream, device: DeviceId) -> Result<&GpuStream> {
        let found = stream.device_id();
        // CUDA's streams and HIP's have one type.
        let own = stream.as_any().downcast_ref();
        own.filter(|_| found.vendor == device.vendor)
            .ok_or_else(|| {
                let needed = format!("one of {device}");
                Error::invalid("stream", format!("one of {found}"), needed)
            })
    }

    /// The vendor's stream, for work that is queued directly.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Runs `work` now, or on the stream's thread. Its arguments are copied only in the second case.
    ///
    /// # Errors
    /// The stream's earlier failure, or the error of `work` when it runs now.
    pub(crate) fn submit<A: Clone + Send + 'static>(
        &self,
        arguments: &A,
        work: impl FnOnce(&Core, &A) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(worker) = &self.worker else {
            self.core.context.check()?;
            return work(&self.core, arguments);
        };
        let arguments = arguments.clone();
        worker.submit(Box::new(move |core, state| {
            state?;
            work(core, &arguments)
        }))
    }

    /// As [`submit`](GpuStream::submit), for work that must learn that it will never run.
    pub(crate) fn submit_or_refuse(
        &self,
        work: impl FnOnce(&Core, Result<()>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        match &self.worker {
            Some(worker) => worker.submit(Box::new(work)),
            None => work(&self.core, self.core.context.check()),
        }
    }

    // Waits until the thread has queued everything.
    fn flush(&self) -> Result<()> {
        self.core.context.check()?;
        self.worker
            .as_ref()
            .map_or(Ok(()), |worker| worker.flush(&self.core.context))
    }
}

// SAFETY: work goes to one stream of the vendor in the order of the calls, through the thread too. Events are recorded
// in that order. The id is that of the stream's device.
unsafe impl Stream for GpuStream {
    fn device_id(&self) -> DeviceId {
        self.core.context.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> StreamKind {
        self.kind
    }

    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()> {
        // SAFETY: the caller vouches for both regions until the copy has run.
        self.submit(&(dst, src), |core, (dst, src)| unsafe {
            core.copy(dst.addr, src.addr, src.bytes)
        })
    }

    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()> {
        if self.worker.is_none() {
            self.core.context.check()?;
            // SAFETY: the caller vouches for the region until the copy has run.
            return unsafe { self.core.upload(dst.addr, src) };
        }
        // SAFETY: as above.
        self.submit(&(dst, src.to_vec()), |core, (dst, src)| unsafe {
            core.upload(dst.addr, src)
        })
    }

    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()> {
        self.flush()?;
        // SAFETY: the caller vouches for the region; the call returns once the copy has run.
        unsafe { self.core.download(dst, src.addr) }
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        let event = StreamEvent::new(&self.core.context, &self.clock)?;
        let recorded = event.clone();
        self.submit_or_refuse(move |core, state| match state {
            Ok(()) => recorded.record(core.handle()),
            Err(error) => {
                recorded.settle(Err(error.clone()));
                Err(error)
            }
        })?;
        Ok(event)
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        let event = StreamEvent::of(event, self.core.context.id)?;
        match &self.worker {
            None => event.delay(&self.core.context, self.core.handle()),
            Some(worker) => {
                let event = event.shared();
                worker.submit(Box::new(move |core, state| {
                    state?;
                    event.delay(&core.context, core.handle())
                }))
            }
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.flush()?;
        self.core.synchronize()
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>> {
        if self.worker.is_some() {
            let needed = "one that passes its work straight on";
            return Err(Error::invalid(
                "recorded work",
                "a stream of staged collectives",
                needed,
            ));
        }
        self.core.context.check()?;
        Ok(Box::new(Graph::record(&self.core, work)?))
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        self.worker = None;
        // Memory that queued work uses is freed after the streams. A device that has failed may never become idle.
        if self.core.context.check().is_ok()
            && let Err(error) = self.core.synchronize()
        {
            self.core.context.fail(error);
        }
    }
}
