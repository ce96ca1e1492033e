//! A custom vendor: the reference vendor's devices under another name, with a count of the kernels launched on
//! them.

use fascicle::hal::{
    Blas, Capabilities, Communicator, Device, DeviceId, Driver, Event, GroupId, Join, Kernel,
    Kernels, Memory, OpenOptions, Probe, RawBuffer, Result, Stream, StreamKind, VendorId,
};
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The vendor's name.
pub const COUNTING: VendorId = VendorId::new("counting");

/// Number of kernels that its devices have launched.
pub static LAUNCHES: AtomicUsize = AtomicUsize::new(0);

/// The vendor, as a program registers it.
pub fn driver() -> Driver {
    Driver {
        vendor: COUNTING,
        open,
        probe: || Probe {
            usable: true,
            findings: vec!["counting: this machine's processor".into()],
        },
    }
}

fn open(options: OpenOptions) -> Result<Arc<dyn Device>> {
    let cpu = fascicle::registry::drivers().into_iter();
    let cpu = cpu.filter(|driver| driver.vendor == VendorId::CPU).last();
    let inner = (cpu.expect("every build carries the reference vendor").open)(options)?;
    Ok(Arc::new(Counting(inner)))
}

#[derive(Debug)]
struct Counting(Arc<dyn Device>);

// SAFETY: apart from the name, all answers are the inner device's own.
unsafe impl Device for Counting {
    fn id(&self) -> DeviceId {
        renamed(self.0.id())
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
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.deallocate(buffer) }
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        Ok(Arc::new(Renamed(self.0.create_stream(kind)?)))
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        self.0.create_blas()
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        Ok(Arc::new(Counted(self.0.kernels()?)))
    }

    fn create_group(&self) -> Result<GroupId> {
        self.0.create_group()
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        self.0.join(join)
    }
}

#[derive(Debug)]
struct Counted(Arc<dyn Kernels>);

// SAFETY: these are the inner vendor's kernels, which read and write only what the arguments name.
unsafe impl Kernels for Counted {
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()> {
        LAUNCHES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.launch(stream, kernel) }
    }
}

#[derive(Debug)]
struct Renamed(Arc<dyn Stream>);

// SAFETY: this is the inner stream under the device's name; the vendor's objects find their own stream by `as_any`.
unsafe impl Stream for Renamed {
    fn device_id(&self) -> DeviceId {
        renamed(self.0.device_id())
    }

    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }

    fn kind(&self) -> StreamKind {
        self.0.kind()
    }

    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.copy(dst, src) }
    }

    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.upload(dst, src) }
    }

    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.download(dst, src) }
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        self.0.record()
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        self.0.wait(event)
    }

    fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }
}

fn renamed(id: DeviceId) -> DeviceId {
    DeviceId {
        vendor: COUNTING,
        ..id
    }
}
