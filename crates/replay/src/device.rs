//! A device whose groups are made by another.

#![allow(
    unsafe_code,
    reason = "a device that passes on the calls of its callers"
)]

use hal::{
    Blas, Capabilities, Communicator, Device, DeviceId, GroupId, Join, Kernels, Memory, RawBuffer,
    Result, Stream, StreamKind,
};
use std::{fmt, sync::Arc};

/// How the groups of a device are made.
pub trait Groups: Send + Sync + fmt::Debug {
    /// As [`Device::create_group`].
    ///
    /// # Errors
    /// As there.
    fn create(&self, device: &dyn Device) -> Result<GroupId>;

    /// As [`Device::join`].
    ///
    /// # Errors
    /// As there.
    fn join(&self, device: &Arc<dyn Device>, join: Join) -> Result<Box<dyn Communicator>>;
}

/// A device, with other groups.
#[derive(Debug)]
pub struct Wrapped<G> {
    device: Arc<dyn Device>,
    groups: G,
}

impl<G: Groups + 'static> Wrapped<G> {
    /// That device with these groups.
    pub fn open(device: Arc<dyn Device>, groups: G) -> Arc<dyn Device> {
        Arc::new(Wrapped { device, groups })
    }
}

// SAFETY: every call is passed to a device that keeps the contract, with the caller's arguments. Groups keep their own.
unsafe impl<G: Groups> Device for Wrapped<G> {
    fn id(&self) -> DeviceId {
        self.device.id()
    }

    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn memory(&self) -> Result<Memory> {
        self.device.memory()
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.device.allocate(bytes)
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.deallocate(buffer) }
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        self.device.create_stream(kind)
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        self.device.create_blas()
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        self.device.kernels()
    }

    fn create_group(&self) -> Result<GroupId> {
        self.groups.create(&*self.device)
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.groups.join(&self.device, join)
    }
}
