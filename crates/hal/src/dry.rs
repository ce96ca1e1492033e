//! A device that computes nothing: shapes flow through it, and buffers have addresses but no memory.
//!
//! It shows what a program would do without doing it, when there is no machine description to simulate on. A
//! model runs on it once to count its work. Its collectives move nothing, so a rank joins a group without its peers.

use crate::{
    Blas, Capabilities, Collective, Communicator, DType, Device, DeviceId, Error, Event, Gemm,
    GroupId, Join, Kernel, Kernels, Memory, RawBuffer, Result, Stream, StreamKind, VendorId,
};
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const ID: DeviceId = DeviceId {
    vendor: VendorId::new("dry"),
    ordinal: 0,
};

/// Opens a device that computes nothing.
pub fn open() -> Arc<dyn Device> {
    Arc::new(Dry {
        capabilities: Capabilities {
            dtypes: DType::ALL.into(),
            holds_values: false,
            host_memory: false,
            overlaps_streams: false,
            records_work: false,
            canonical_sums: true,
            paged_sums: true,
            description: "a device that computes nothing".into(),
        },
        next: AtomicU64::new(64),
    })
}

#[derive(Debug)]
struct Dry {
    capabilities: Capabilities,
    next: AtomicU64,
}

// SAFETY: no buffer has memory, so no two buffers can share any; addresses are multiples of 64 and never
// repeat.
unsafe impl Device for Dry {
    fn id(&self) -> DeviceId {
        ID
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn memory(&self) -> Result<Memory> {
        let most = usize::MAX >> 1;
        Ok(Memory {
            free: most,
            total: most,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let step = (bytes as u64).next_multiple_of(64).max(64);
        let addr = self.next.fetch_add(step, Ordering::Relaxed);
        Ok(RawBuffer { addr, bytes })
    }

    unsafe fn deallocate(&self, _buffer: RawBuffer) {}

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        Ok(Arc::new(DryStream(kind)))
    }

    fn open_host(&self, _threads: usize) -> Result<Arc<dyn Device>> {
        Ok(open())
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        Ok(Arc::new(Nothing))
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        Ok(Arc::new(Nothing))
    }

    fn create_group(&self) -> Result<GroupId> {
        Ok(GroupId(Vec::new()))
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(DryGroup {
            rank: join.rank,
            size: join.members.len(),
        }))
    }
}

#[derive(Debug)]
struct DryStream(StreamKind);

// SAFETY: nothing is ever queued, so all work is complete.
unsafe impl Stream for DryStream {
    fn device_id(&self) -> DeviceId {
        ID
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> StreamKind {
        self.0
    }

    unsafe fn copy(&self, _dst: RawBuffer, _src: RawBuffer) -> Result<()> {
        Ok(())
    }

    unsafe fn upload(&self, _dst: RawBuffer, _src: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn download(&self, _dst: &mut [u8], _src: RawBuffer) -> Result<()> {
        Err(Error::NoValues { device: ID })
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Nothing))
    }

    fn wait(&self, _event: &dyn Event) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct DryGroup {
    rank: usize,
    size: usize,
}

// SAFETY: rank and size are those of the join, and nothing is read or written.
unsafe impl Communicator for DryGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    unsafe fn run(&self, _stream: &dyn Stream, _collectives: &[Collective]) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Nothing;

// SAFETY: nothing is read or written.
unsafe impl Blas for Nothing {
    unsafe fn gemm(&self, _stream: &dyn Stream, _gemm: &Gemm) -> Result<()> {
        Ok(())
    }
}

// SAFETY: nothing is read or written.
unsafe impl Kernels for Nothing {
    unsafe fn launch(&self, _stream: &dyn Stream, _kernel: &Kernel) -> Result<()> {
        Ok(())
    }
}

// SAFETY: work that is never queued has passed.
unsafe impl Event for Nothing {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn time_us(&self) -> Result<Option<f64>> {
        Ok(None)
    }
}
