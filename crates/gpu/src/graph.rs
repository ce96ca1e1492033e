//! Work recorded once and queued many times, for steps of so many small launches that the host falls behind.

use crate::{context::Context, stream::GpuStream, table::Handle};
use hal::{DeviceId, Error, Result, Stream};
use std::{fmt, sync::Arc};

/// Work of one stream, recorded.
pub struct Graph {
    context: Arc<Context>,
    handle: Handle,
}

impl Graph {
    /// Records what `work` queues on `stream`, instead of running it.
    ///
    /// Within `work` only kernels, products, copies between device memory and collectives may be queued, and the host may
    /// not wait. Scratch memory and handles must have been made, so the same work has run once before.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream of another vendor or one whose work passes through a thread; [`Error::Vendor`] when
    /// something was queued that cannot be recorded; the failure of `work`.
    ///
    /// # Safety
    /// `device` made the stream.
    pub unsafe fn record(
        device: DeviceId,
        stream: &dyn Stream,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Graph> {
        let stream = GpuStream::of(stream, device)?;
        if stream.is_queued() {
            let needed = "one that passes its work straight on";
            return Err(Error::invalid("graph", "a stream of staged collectives", needed));
        }
        let core = stream.core();
        // SAFETY: the stream is live.
        core.context.call(|runtime| unsafe { runtime.begin_capture(core.handle()) })?;
        let queued = work();
        // SAFETY: the stream is live and records, since `begin_capture` succeeded.
        let ended = core.context.call(|runtime| unsafe { runtime.end_capture(core.handle()) });
        let graph = ended.map(|handle| Graph { context: core.context.clone(), handle });
        queued.and(graph)
    }

    /// Queues everything that was recorded.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream of another vendor; [`Error::Vendor`].
    ///
    /// # Safety
    /// All memory that the recorded work uses is live until it has run, and in no other use meanwhile.
    pub unsafe fn launch(&self, stream: &dyn Stream) -> Result<()> {
        let stream = GpuStream::of(stream, self.context.id)?;
        let core = stream.core();
        // SAFETY: the graph is live; the caller vouches for the memory.
        self.context.call(|runtime| unsafe { runtime.launch_graph(self.handle, core.handle()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph is live; the vendor ends it after its last launch has run.
        self.context.release(|runtime| unsafe { runtime.destroy_graph(self.handle) });
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.context.id)
    }
}
