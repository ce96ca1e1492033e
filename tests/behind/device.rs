//! The processor, with streams that all run behind the host, as those of accelerators do.

#![allow(
    unsafe_code,
    reason = "a device that passes on the calls of its callers"
)]

use hal::{
    Blas, Capabilities, Communicator, Device, DeviceId, GroupId, Join, Kernels, Memory, RawBuffer,
    Result, Stream, StreamKind,
};
use std::sync::Arc;

#[derive(Debug)]
struct Late(Arc<dyn Device>);

/// Opens it.
pub fn open() -> Result<Arc<dyn Device>> {
    Ok(Arc::new(Late(cpu::open(cpu::Options::default())?)))
}

// SAFETY: every call is passed to a device that keeps the contract, with the caller's arguments; its communication streams
// take all kinds of work.
unsafe impl Device for Late {
    fn id(&self) -> DeviceId {
        self.0.id()
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn memory(&self) -> Result<Memory> {
        self.0.memory()
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.0.allocate(bytes)
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.0.deallocate(buffer) }
    }

    fn create_stream(&self, _kind: StreamKind) -> Result<Arc<dyn Stream>> {
        self.0.create_stream(StreamKind::Communication)
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        self.0.create_blas()
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        self.0.kernels()
    }

    fn create_group(&self) -> Result<GroupId> {
        self.0.create_group()
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.0.join(join)
    }
}
