//! Uses of memory by several streams, on a vendor that logs what the shell asks of it and whose events can fail.

use fascicle_tensor::{Communicator, DType, Device, Error, ReduceOp, Result, StreamKind, Tensor};
use hal::{Blas, Capabilities, DeviceId, Event, GroupId, Join, Kernels, Memory, RawBuffer, Stream};
use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Default)]
struct Log {
    // Sizes of the blocks given back to the system.
    freed: Mutex<Vec<usize>>,
    // Kinds of the streams that waited for an event.
    waited: Mutex<Vec<StreamKind>>,
    // The next event of a stream other than the first fails.
    breaks: AtomicBool,
}

/// A device that computes on the processor, keeps a log, and acts as if it were not the host: its streams may wait for each other while
/// the host continues.
#[derive(Debug)]
struct Logged {
    inner: Arc<dyn hal::Device>,
    capabilities: Capabilities,
    log: Arc<Log>,
    has_stream: AtomicBool,
}

#[derive(Debug)]
struct LoggedStream {
    inner: Arc<dyn Stream>,
    log: Arc<Log>,
    is_first: bool,
}

/// The event of a stream that fails before it passes the point.
#[derive(Debug)]
struct Broken;

fn broken<T>() -> Result<T> {
    Err(Error::invalid("event", "a failed stream", "one that runs"))
}

// SAFETY: it never claims that work has run.
unsafe impl Event for Broken {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn is_complete(&self) -> Result<bool> {
        broken()
    }
    fn synchronize(&self) -> Result<()> {
        broken()
    }
    fn time_us(&self) -> Result<Option<f64>> {
        broken()
    }
}

// SAFETY: the work is the processor's own; an event that fails claims nothing.
unsafe impl Stream for LoggedStream {
    fn device_id(&self) -> DeviceId {
        self.inner.device_id()
    }
    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
    fn kind(&self) -> StreamKind {
        self.inner.kind()
    }
    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.copy(dst, src) }
    }
    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.upload(dst, src) }
    }
    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.download(dst, src) }
    }
    fn record(&self) -> Result<Arc<dyn Event>> {
        match !self.is_first && self.log.breaks.swap(false, Ordering::Relaxed) {
            true => Ok(Arc::new(Broken)),
            false => self.inner.record(),
        }
    }
    fn wait(&self, event: &dyn Event) -> Result<()> {
        self.log.waited.lock().unwrap().push(self.kind());
        match event.as_any().is::<Broken>() {
            true => broken(),
            false => self.inner.wait(event),
        }
    }
    fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }
}

// SAFETY: all answers are the processor's own.
unsafe impl hal::Device for Logged {
    fn id(&self) -> DeviceId {
        self.inner.id()
    }
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn memory(&self) -> Result<Memory> {
        self.inner.memory()
    }
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.inner.allocate(bytes)
    }
    unsafe fn deallocate(&self, buffer: RawBuffer) {
        self.log.freed.lock().unwrap().push(buffer.bytes);
        // SAFETY: guaranteed by the caller.
        unsafe { self.inner.deallocate(buffer) }
    }
    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        let is_first = !self.has_stream.swap(true, Ordering::Relaxed);
        Ok(Arc::new(LoggedStream {
            inner: self.inner.create_stream(kind)?,
            log: self.log.clone(),
            is_first,
        }))
    }
    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        self.inner.create_blas()
    }
    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        self.inner.kernels()
    }
    fn create_group(&self) -> Result<GroupId> {
        self.inner.create_group()
    }
    fn join(&self, join: Join) -> Result<Box<dyn hal::Communicator>> {
        self.inner.join(join)
    }
}

fn open() -> Result<(Device, Arc<Log>)> {
    let log = Arc::new(Log::default());
    let inner = cpu::open(cpu::Options::default())?;
    let device = Device::new(Arc::new(Logged {
        capabilities: Capabilities {
            host_memory: false,
            ..inner.capabilities().clone()
        },
        inner,
        log: log.clone(),
        has_stream: AtomicBool::new(false),
    }))?;
    Ok((device, log))
}

/// Uses a tensor on another stream of this kind.
fn use_beside(device: &Device, kind: StreamKind, tensor: &Tensor) -> Result<()> {
    let join = Join {
        id: device.hal().create_group()?,
        label: "one".into(),
        rank: 0,
        members: vec![0],
        timeout: Duration::from_secs(5),
        abort: Arc::default(),
    };
    let stream = device.create_stream(kind, "beside")?;
    Communicator::join(device, join, None)?.all_reduce(&stream, tensor, ReduceOp::Sum)
}

const KIB: usize = 1024;

fn tensor(device: &Device, bytes: usize) -> Result<Tensor> {
    Tensor::zeros(device, DType::F32, &[bytes / 4])
}

// The stream itself answers again afterwards, so only the event protects the memory.
#[test]
fn a_refused_wait_keeps_the_use() -> Result<()> {
    let (device, log) = open()?;
    let shared = tensor(&device, 4 * KIB)?;
    log.breaks.store(true, Ordering::Relaxed);
    use_beside(&device, StreamKind::Communication, &shared)?;
    for _ in 0..3 {
        shared.fill(0.0).unwrap_err();
    }
    drop(shared);
    tensor(&device, 4 * KIB).unwrap_err();
    tensor(&device, 4 * KIB)?;
    Ok(())
}

#[test]
fn memory_behind_a_failed_event_stays_mapped() -> Result<()> {
    let (device, log) = open()?;
    let (shared, own) = (tensor(&device, 4 * KIB)?, tensor(&device, 8 * KIB)?);
    log.breaks.store(true, Ordering::Relaxed);
    use_beside(&device, StreamKind::Communication, &shared)?;
    use_beside(&device, StreamKind::Communication, &own)?;
    drop((shared, own, device));
    assert_eq!(*log.freed.lock().unwrap(), [8 * KIB]);
    Ok(())
}

#[test]
fn memory_of_a_second_compute_stream_is_reused_after_it() -> Result<()> {
    let (device, log) = open()?;
    let shared = tensor(&device, 4 * KIB)?;
    use_beside(&device, StreamKind::Compute, &shared)?;
    log.waited.lock().unwrap().clear();
    drop(shared);
    tensor(&device, 4 * KIB)?;
    assert_eq!(*log.waited.lock().unwrap(), [StreamKind::Compute]);
    Ok(())
}

#[test]
fn a_download_waits_for_other_streams() -> Result<()> {
    let (device, log) = open()?;
    let shared = tensor(&device, 4 * KIB)?;
    use_beside(&device, StreamKind::Communication, &shared)?;
    log.waited.lock().unwrap().clear();
    shared.download(&mut [1; 4 * KIB])?;
    assert_eq!(*log.waited.lock().unwrap(), [StreamKind::Compute]);
    shared.download(&mut [1; 4 * KIB - 1]).unwrap_err();
    Ok(())
}
