//! Recorded work: recorded once, queued many times. It is for steps whose small launches outpace the host.

use crate::{
    context::Context,
    stream::{Core, GpuStream},
    table::Handle,
};
use hal::{Recording, Result, Stream};
use std::{fmt, sync::Arc};

/// Work of one stream, as the vendor's executable graph.
pub(crate) struct Graph {
    context: Arc<Context>,
    handle: Handle,
}

impl Graph {
    /// Records the work that `work` queues on the stream.
    ///
    /// # Errors
    /// [`Error::Vendor`](hal::Error::Vendor) when `work` queues something that cannot be recorded; the error of `work`.
    pub(crate) fn record(core: &Core, work: &mut dyn FnMut() -> Result<()>) -> Result<Graph> {
        let context = &core.context;
        // SAFETY: the stream is live.
        context.call(|runtime| unsafe { runtime.begin_capture(core.handle()) })?;
        let queued = work();
        // SAFETY: the stream is live and records, since `begin_capture` succeeded.
        let ended = core
            .context
            .call(|runtime| unsafe { runtime.end_capture(core.handle()) });
        let graph = ended.map(|handle| Graph {
            context: core.context.clone(),
            handle,
        });
        queued.and(graph)
    }
}

// SAFETY: the vendor queues the graph's nodes and nothing else.
unsafe impl Recording for Graph {
    unsafe fn launch(&self, stream: &dyn Stream) -> Result<()> {
        let core = GpuStream::of(stream, self.context.id)?.core();
        // SAFETY: the graph is live; the caller vouches for the memory.
        self.context
            .call(|runtime| unsafe { runtime.launch_graph(self.handle, core.handle()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the graph is live; the vendor ends it after its last launch has run.
        self.context
            .release(|runtime| unsafe { runtime.destroy_graph(self.handle) });
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.context.id)
    }
}
