//! One accelerator, as one rank drives it.

use crate::{
    Blas, Communicator, DType, GroupId, Join, Kernels, RawBuffer, Result, Stream, StreamKind,
};
use std::{fmt, sync::Arc};

/// Who makes a device: a name in lower case, as configurations and messages have it.
///
/// Anybody can be a vendor: a crate makes an id of its own, implements the traits, and hands its
/// [`Driver`](crate::Driver) to the program. The constants are the vendors of this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VendorId(&'static str);

impl VendorId {
    /// The reference vendor: this machine's processor.
    pub const CPU: VendorId = VendorId("cpu");
    /// NVIDIA, through CUDA.
    pub const CUDA: VendorId = VendorId("cuda");
    /// AMD, through HIP; on MI250X a device is one GCD.
    pub const ROCM: VendorId = VendorId("rocm");
    /// The simulated vendor: shapes and a virtual clock, no values.
    pub const SIM: VendorId = VendorId("sim");

    /// The vendor of that name, which no other vendor of the program has.
    pub const fn new(name: &'static str) -> VendorId {
        VendorId(name)
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The names that [`named`](VendorId::named) knows, in words.
    pub const NAMES: &str = "cuda, rocm or cpu";

    /// The vendor of this workspace that has that name, of those whose devices a program can be told to use.
    pub fn named(name: &str) -> Option<VendorId> {
        [VendorId::CUDA, VendorId::ROCM, VendorId::CPU]
            .into_iter()
            .find(|vendor| vendor.name() == name)
    }
}

impl fmt::Display for VendorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Vendor and ordinal of a device: `cuda:3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// Who makes it.
    pub vendor: VendorId,
    /// Its number among the devices of that vendor that this process sees.
    pub ordinal: usize,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.vendor.name(), self.ordinal)
    }
}

/// What a device can do; asked for, never assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    /// Element types that products, kernels and collectives take.
    pub dtypes: Vec<DType>,
    /// Whether buffers hold numbers. The simulated vendor counts bytes and time only, and refuses a download.
    pub holds_values: bool,
    /// Whether work queued on one stream can run beside work of another.
    pub overlaps_streams: bool,
    /// Whether work of its compute stream can be recorded ([`Stream::capture`]).
    pub records_work: bool,
    /// The device in words, for the start-up report.
    pub description: String,
}

/// A device's memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What an allocation could still get.
    pub free: usize,
    /// All of it.
    pub total: usize,
}

/// One accelerator.
///
/// # Safety
/// `id` and `capabilities` are true; `allocate` returns memory of the stated size, aligned to 64 bytes and disjoint
/// from every other live buffer; the objects made by this device work on its memory only.
pub unsafe trait Device: Send + Sync + fmt::Debug {
    /// Vendor and ordinal.
    fn id(&self) -> DeviceId;

    /// What the device can do.
    fn capabilities(&self) -> &Capabilities;

    /// Free and total memory.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor) when the device does not answer.
    fn memory(&self) -> Result<Memory>;

    /// Reserves `bytes` of uninitialised device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the numbers of bytes asked for and free.
    fn allocate(&self, bytes: usize) -> Result<RawBuffer>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `buffer` came from this device's `allocate`, is given back once, and no queued work uses it.
    unsafe fn deallocate(&self, buffer: RawBuffer);

    /// Makes a queue of work.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>>;

    /// Makes a handle for matrix products.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_blas(&self) -> Result<Arc<dyn Blas>>;

    /// The device's kernels.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor) when their code cannot be loaded.
    fn kernels(&self) -> Result<Arc<dyn Kernels>>;

    /// Makes the id of a new process group; one rank calls it and sends the id to the others.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_group(&self) -> Result<GroupId>;

    /// Joins a process group. Collective: returns once every rank of the group has joined.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not come; [`Error::Aborted`](crate::Error::Aborted).
    fn join(&self, join: Join) -> Result<Box<dyn Communicator>>;
}
