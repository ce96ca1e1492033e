//! The device of one rank: its share of this machine.

use crate::patience::Running;
use crate::stream::{HostStream, now_us};
use crate::{collectives, kernels, machine, matmul, memory::Allocator, pool::Pool};
use hal::{
    Blas, Capabilities, Communicator, DType, Device, DeviceId, Gemm, GroupId, Join, Kernel,
    Kernels, Memory, RawBuffer, Result, Stream, StreamKind, Transport, VendorId,
};
use std::sync::Arc;

/// One rank's share of this machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads with which the rank computes, including its own.
    pub threads: usize,
    /// Bytes that it may allocate; defaults to what the machine has available.
    pub memory_bytes: Option<usize>,
    /// Its number among the ranks of this host.
    pub ordinal: usize,
    /// How it reaches the other ranks if they are processes; `None` if they are threads of this one.
    pub transport: Option<Arc<dyn Transport>>,
}

impl Default for Options {
    /// One thread, the machine's memory, ordinal 0.
    fn default() -> Options {
        Options {
            threads: 1,
            memory_bytes: None,
            ordinal: 0,
            transport: None,
        }
    }
}

/// Opens the device of one rank. Ranks are threads of one process, or processes with a transport between them;
/// each rank opens its own device.
///
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for 0 threads, or more than the system can start.
pub fn open(options: Options) -> Result<Arc<dyn Device>> {
    // Starts the clock that dates events.
    now_us();
    Ok(Arc::new(Host::new(options, false)?))
}

fn capabilities(pool: &Pool, memory: &Allocator, is_beside: bool) -> Capabilities {
    let threads = match pool.threads() {
        1 => "1 thread".into(),
        threads => format!("{threads} threads"),
    };
    let memory = hal::error::Bytes(memory.memory().total);
    let description = format!(
        "{threads} of {}, {}, {memory}",
        machine::processor(),
        machine::vectors()
    );
    Capabilities {
        dtypes: DType::ALL.into(),
        holds_values: true,
        // Calls on a queue return before their work has run.
        host_memory: !is_beside,
        overlaps_streams: true,
        records_work: false,
        canonical_sums: true,
        paged_sums: true,
        description,
    }
}

#[derive(Debug)]
struct Host {
    id: DeviceId,
    capabilities: Capabilities,
    memory: Allocator,
    pool: Arc<Pool>,
    transport: Option<Arc<dyn Transport>>,
    // Whether it works beside another device of its rank.
    is_beside: bool,
    // Until the device is dropped, its rank counts among those that need a processor; one beside another computes only at times.
    _running: Option<Running>,
}

impl Host {
    fn new(options: Options, is_beside: bool) -> Result<Host> {
        let id = DeviceId {
            vendor: VendorId::CPU,
            ordinal: options.ordinal,
        };
        let pool = Arc::new(Pool::new(options.threads)?);
        let memory = Allocator::new(id, options.memory_bytes);
        Ok(Host {
            id,
            capabilities: capabilities(&pool, &memory, is_beside),
            memory,
            transport: options.transport,
            is_beside,
            _running: (!is_beside).then(|| Running::more(pool.threads())),
            pool,
        })
    }
}

// SAFETY: the id is that of the options. The allocator returns memory of the stated size, aligned to 64 bytes
// and disjoint from all other memory. Streams, kernels, GEMMs and communicators touch only what their arguments
// name.
unsafe impl Device for Host {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn memory(&self) -> Result<Memory> {
        Ok(self.memory.memory())
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.memory.allocate(bytes)
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        // SAFETY: the caller guarantees the same: from this device, once, out of use.
        unsafe { self.memory.deallocate(buffer) }
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        Ok(Arc::new(match (self.is_beside, kind) {
            (true, StreamKind::Compute) => HostStream::queued(self.id, kind),
            _ => HostStream::new(self.id, kind),
        }))
    }

    fn open_host(&self, threads: usize) -> Result<Arc<dyn Device>> {
        let options = Options {
            threads,
            ordinal: self.id.ordinal,
            ..Options::default()
        };
        Ok(Arc::new(Host::new(options, true)?))
    }

    unsafe fn host_bytes<'a>(&self, buffer: RawBuffer) -> Option<&'a mut [u8]> {
        // SAFETY: the caller guarantees a live buffer that nothing else touches; the allocator hands it out initialised.
        Some(unsafe { crate::stream::host_bytes_mut(buffer) })
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        Ok(Arc::new(HostKernels {
            pool: self.pool.clone(),
        }))
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        Ok(Arc::new(HostKernels {
            pool: self.pool.clone(),
        }))
    }

    fn create_group(&self) -> Result<GroupId> {
        match &self.transport {
            None => Ok(collectives::create_group()),
            Some(transport) => transport.create_group(),
        }
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        match &self.transport {
            None => collectives::join(join),
            Some(transport) => collectives::join_over(&**transport, join),
        }
    }
}

/// Kernels and GEMMs on a rank's threads.
#[derive(Debug)]
struct HostKernels {
    pool: Arc<Pool>,
}

// SAFETY: `execute` touches only the memory that the kernel names.
unsafe impl Kernels for HostKernels {
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()> {
        // SAFETY: the caller guarantees the kernel's slices until it has run.
        unsafe { HostStream::of(stream)?.launch(kernel, &self.pool, kernels::execute) }
    }
}

// SAFETY: `gemm` touches only the three matrices.
unsafe impl Blas for HostKernels {
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        // SAFETY: the caller guarantees the three matrices until the GEMM has run.
        unsafe { HostStream::of(stream)?.launch(gemm, &self.pool, matmul::gemm) }
    }
}
