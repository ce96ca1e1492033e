//! The device of one live rank.

use crate::{
    Recorder,
    cost::Costs,
    group,
    kernels::SimKernels,
    state::{Shared, Side},
    stream::SimStream,
};
use hal::{
    Blas, Capabilities, Communicator, DType, Device, DeviceId, GroupId, Join, Kernels, Memory,
    RawBuffer, Result, Stream, StreamKind, VendorId,
};
use std::sync::Arc;

/// The options of a simulated device.
#[derive(Clone, Debug)]
pub struct Options {
    /// The costs of all work.
    pub costs: Arc<Costs>,
    /// Its number in messages: the world rank.
    pub ordinal: usize,
    /// World ranks that run as threads, in increasing order; every other rank behaves like one of these. `None`
    /// if all run.
    pub live: Option<Arc<[usize]>>,
    /// A description of the machine.
    pub description: String,
}

/// Opens the device of one live rank.
///
/// # Errors
/// None yet; reserved for a device that cannot be opened.
pub fn open(options: Options) -> Result<Arc<dyn Device>> {
    open_recorded(options).map(|(device, _)| device)
}

/// Opens the device of one live rank, with the recorder of its clocks.
///
/// # Errors
/// As [`open`].
pub fn open_recorded(options: Options) -> Result<(Arc<dyn Device>, Recorder)> {
    let id = DeviceId {
        vendor: VendorId::SIM,
        ordinal: options.ordinal,
    };
    let capabilities = Capabilities {
        records_work: false,
        dtypes: DType::ALL.into(),
        holds_values: false,
        host_memory: false,
        overlaps_streams: true,
        canonical_sums: true,
        paged_sums: true,
        description: options.description,
    };
    let shared = Arc::new(Shared::new(id, options.costs, options.live));
    let recorder = Recorder::new(shared.clone());
    Ok((
        Arc::new(SimDevice {
            shared,
            capabilities,
            side: Side::Device,
        }),
        recorder,
    ))
}

#[derive(Debug)]
struct SimDevice {
    shared: Arc<Shared>,
    capabilities: Capabilities,
    side: Side,
}

// SAFETY: the id is that of the options. Address ranges are aligned to 256 bytes and never reused. Nobody reads
// or writes there: not this vendor, and no one else either, because `holds_values` is false.
unsafe impl Device for SimDevice {
    fn id(&self) -> DeviceId {
        self.shared.id
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn memory(&self) -> Result<Memory> {
        Ok(self.shared.lock().memory_of(self.side).memory())
    }

    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.shared.lock().memory_of(self.side).allocate(bytes)
    }

    unsafe fn deallocate(&self, buffer: RawBuffer) {
        self.shared.lock().memory_of(self.side).deallocate(buffer);
    }

    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>> {
        let index = self.shared.lock().add_lane(kind);
        Ok(Arc::new(SimStream {
            shared: self.shared.clone(),
            index,
            kind,
            side: self.side,
        }))
    }

    // Both sides have the clock of one host, which waits for either.
    fn open_host(&self, _threads: usize) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(SimDevice {
            shared: self.shared.clone(),
            capabilities: self.capabilities.clone(),
            side: Side::Host,
        }))
    }

    fn create_blas(&self) -> Result<Arc<dyn Blas>> {
        Ok(Arc::new(SimKernels {
            shared: self.shared.clone(),
            side: self.side,
        }))
    }

    fn kernels(&self) -> Result<Arc<dyn Kernels>> {
        Ok(Arc::new(SimKernels {
            shared: self.shared.clone(),
            side: self.side,
        }))
    }

    fn create_group(&self) -> Result<GroupId> {
        Ok(group::create())
    }

    fn join(&self, join: Join) -> Result<Box<dyn Communicator>> {
        group::join(&self.shared, join)
    }
}
