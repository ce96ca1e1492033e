//! The vendor's stream, with its staging and scratch memory.

use super::{scratch::Scratch, staging::Staging};
use crate::{
    context::Context,
    table::{Address, Handle, Outcome, Runtime},
    wait,
};
use hal::{Result, lock};
use std::sync::{Arc, Mutex};

/// From this length on, copies of pinned memory are made at once.
const DIRECT_BYTES: usize = 1 << 20;

/// A stream of the vendor, destroyed when dropped unless something else has made it.
#[derive(Debug)]
pub(crate) struct OwnedStream {
    context: Arc<Context>,
    handle: Handle,
    is_adopted: bool,
}

impl OwnedStream {
    /// A new stream. An urgent stream runs before others where both have work.
    pub(crate) fn new(context: &Arc<Context>, urgent: bool) -> Result<OwnedStream> {
        let handle = context.call(|runtime| runtime.create_stream(urgent))?;
        Ok(OwnedStream {
            context: context.clone(),
            handle,
            is_adopted: false,
        })
    }

    /// A stream that something else has made, and destroys.
    fn adopted(context: &Arc<Context>, handle: Handle) -> OwnedStream {
        OwnedStream {
            context: context.clone(),
            handle,
            is_adopted: true,
        }
    }

    /// The vendor's handle.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.is_adopted {
            return;
        }
        // SAFETY: the stream is live, and its owner is gone.
        self.context
            .release(|runtime| unsafe { runtime.destroy_stream(self.handle) });
    }
}

/// A stream of the vendor with its staging and scratch memory.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) context: Arc<Context>,
    // Dropped before the stream: they wait for its last uses of them.
    staging: Mutex<Staging>,
    scratch: Mutex<Scratch>,
    stream: OwnedStream,
}

impl Core {
    pub(super) fn new(context: &Arc<Context>, urgent: bool) -> Result<Core> {
        Ok(Core::of(OwnedStream::new(context, urgent)?))
    }

    /// Over a live stream of this context that something else has made.
    pub(super) fn adopted(context: &Arc<Context>, handle: Handle) -> Core {
        Core::of(OwnedStream::adopted(context, handle))
    }

    fn of(stream: OwnedStream) -> Core {
        let context = &stream.context;
        Core {
            context: context.clone(),
            staging: Mutex::default(),
            scratch: Mutex::new(Scratch::new(context)),
            stream,
        }
    }

    /// The vendor's handle.
    pub(crate) fn handle(&self) -> Handle {
        self.stream.handle()
    }

    /// Queues a copy.
    ///
    /// # Safety
    /// Both regions are live until the copy has run and do not overlap.
    pub(crate) unsafe fn copy(&self, dst: Address, src: Address, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for the regions; the stream is live.
        self.context
            .call(|runtime| unsafe { runtime.copy(dst, src, bytes, self.handle()) })
    }

    /// Queues a copy from the host. The caller may reuse `src` at once.
    ///
    /// # Safety
    /// `dst` holds `src.len()` bytes and is live until the copy has run.
    pub(crate) unsafe fn upload(&self, dst: Address, src: &[u8]) -> Result<()> {
        if self.is_direct(src) {
            // SAFETY: the destination is the caller's guarantee; the source is pinned, and borrowed for the call.
            return self.directly(src.as_ptr(), |runtime| unsafe {
                runtime.copy_to_device(dst, src.as_ptr(), src.len(), self.handle())
            });
        }
        // SAFETY: passed on from the caller.
        unsafe { lock(&self.staging).upload(&self.context, self.handle(), dst, src) }
    }

    /// Copies to the host after everything queued so far.
    ///
    /// # Safety
    /// `src` is live and holds `dst.len()` bytes.
    pub(crate) unsafe fn download(&self, dst: &mut [u8], src: Address) -> Result<()> {
        if self.is_direct(dst) {
            let (len, pointer) = (dst.len(), dst.as_mut_ptr());
            // SAFETY: the source is the caller's guarantee; the destination is pinned, and borrowed exclusively for the call.
            return self.directly(pointer, |runtime| unsafe {
                runtime.copy_to_host(pointer, src, len, self.handle())
            });
        }
        // SAFETY: passed on from the caller.
        unsafe { lock(&self.staging).download(&self.context, self.handle(), dst, src) }
    }

    // Small copies are sooner over through a block, for which the host need not wait.
    fn is_direct(&self, bytes: &[u8]) -> bool {
        bytes.len() >= DIRECT_BYTES && self.context.locked.contain(bytes)
    }

    // Whatever this returns, the copy must be over, because the bytes are the caller's. So first comes a wait for what is queued,
    // which may be in vain and then ends; the copy behind it waits for nobody.
    fn directly(
        &self,
        pinned: *const u8,
        copy: impl FnOnce(&dyn Runtime) -> Outcome<()>,
    ) -> Result<()> {
        self.synchronize()?;
        // SAFETY: the stream is live.
        let ready = |runtime: &dyn Runtime| unsafe { runtime.stream_is_idle(self.handle()) };
        // One that is refused is not queued.
        self.context.call(copy)?;
        wait::surely(&self.context, ready).inspect_err(|_| self.context.locked.lose(pinned))
    }

    /// Scratch memory for the work that is queued next on this stream, and for no other, until the next request.
    ///
    /// # Errors
    /// [`hal::Error::OutOfMemory`].
    pub(crate) fn scratch(&self, bytes: usize) -> Result<Address> {
        lock(&self.scratch).reserve(bytes)
    }

    /// Waits for everything queued so far.
    ///
    /// # Errors
    /// The vendor's; those of the context's watches.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is live.
        wait::until(&self.context, |runtime| unsafe {
            runtime.stream_is_idle(self.handle())
        })
    }
}
