//! One accelerator, as one rank drives it.

use crate::{
    Blas, Communicator, DType, GroupId, Join, Kernels, PageLock, RawBuffer, Result, Stream,
    StreamKind,
};
use std::{fmt, sync::Arc};

/// The vendor of a device: a name in lower case, as used in configurations and messages.
///
/// Anybody can be a vendor: a crate makes its own id, implements the traits, and passes its
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

    /// The vendor with that name, which must be unique in the program.
    pub const fn new(name: &'static str) -> VendorId {
        VendorId(name)
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
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
    /// The vendor.
    pub vendor: VendorId,
    /// Its number among that vendor's devices that this process sees.
    pub ordinal: usize,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.vendor.name(), self.ordinal)
    }
}

/// The capabilities of a device, which callers query and never assume.
#[derive(Clone, Debug, PartialEq)]
pub struct Capabilities {
    /// Element types that GEMMs, kernels and collectives accept.
    pub dtypes: Vec<DType>,
    /// Whether buffers hold values. The simulated vendor only counts bytes and time, and refuses a download.
    pub holds_values: bool,
    /// Whether buffers are memory of this process, which may as well be memory that something else in it has allocated. Calls
    /// that queue work on a compute stream then return once the work has run, and a wait for an event or a stream that returns,
    /// even with an error, leaves no work behind that could still touch memory.
    pub host_memory: bool,
    /// Whether work queued on one stream can run beside work of another.
    pub overlaps_streams: bool,
    /// Whether work of its compute stream can be recorded ([`Stream::capture`]).
    pub records_work: bool,
    /// Whether every sum whose order the seam states, such as that of [`Gemm::leaf`](crate::Gemm::leaf), has this order.
    /// Other devices add in an order of their own, which may depend on all sizes. A device may have both, and keep this one if
    /// it is opened with [`SumOrder::Canonical`](crate::SumOrder).
    pub canonical_sums: bool,
    /// Whether [`PagedAttention`](crate::kernel::PagedAttention) has the bits of an attention to the same keys laid out in a row.
    pub paged_sums: bool,
    /// A description of the device, for the start-up report.
    pub description: String,
}

/// A device's memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that an allocation could still obtain.
    pub free: usize,
    /// All of it.
    pub total: usize,
}

/// One accelerator.
///
/// # Safety
/// `id` and `capabilities` are true, [`host_memory`](Capabilities::host_memory) among them, and so is what `open_host` states. `allocate` returns memory of the stated size, aligned to 64 bytes and
/// disjoint from every other live buffer. The objects made by this device work only on its memory.
pub unsafe trait Device: Send + Sync + fmt::Debug {
    /// Vendor and ordinal.
    fn id(&self) -> DeviceId;

    /// The capabilities of the device.
    fn capabilities(&self) -> &Capabilities;

    /// Free and total memory.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor) if the device does not answer.
    fn memory(&self) -> Result<Memory>;

    /// Reserves `bytes` of uninitialised device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the numbers of bytes requested and free;
    /// [`Error::Vendor`](crate::Error::Vendor) if the device has failed.
    fn allocate(&self, bytes: usize) -> Result<RawBuffer>;

    /// Returns memory to the device. One that has failed keeps it where the end of its work is not known.
    ///
    /// # Safety
    /// `buffer` came from this device's `allocate`, is returned once, and no queued work uses it unless a wait for that work has
    /// failed.
    unsafe fn deallocate(&self, buffer: RawBuffer);

    /// How many streams of [communication](StreamKind::Communication) the device runs apart from each other; `None` for any number.
    /// Beyond that, work of one may wait for unrelated work of another.
    fn num_queues(&self) -> Option<usize> {
        None
    }

    /// Makes a queue of work.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_stream(&self, kind: StreamKind) -> Result<Arc<dyn Stream>>;

    /// Wraps a stream of the vendor that something else has made, such as another framework in this process. Dropping it leaves
    /// the vendor's stream as it is.
    ///
    /// # Safety
    /// `handle` is a stream of this device, in its own context, that lives as long as what is returned.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a vendor without such handles.
    unsafe fn adopt_stream(&self, handle: usize) -> Result<Arc<dyn Stream>> {
        Err(crate::Error::invalid(
            format!("stream {handle:#x} of another library"),
            self.id().to_string(),
            "a device of CUDA or ROCm",
        ))
    }

    /// Opens a device of `threads` of the host's processors and of the host's memory, which works beside this one: its compute
    /// stream is a queue, so a call returns before its work has run. It updates state that stays on the host. If its buffers hold
    /// values, it works on any memory of this process.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a device that was opened without the
    /// [vendor of its host](crate::OpenOptions::host); those of opening one.
    fn open_host(&self, threads: usize) -> Result<Arc<dyn Device>> {
        Err(without_host(self.id(), threads))
    }

    /// The bytes of a buffer, if they are memory of this process.
    ///
    /// # Safety
    /// `buffer` is live memory of this device or a part of it, and until the last use of the slice no work touches it.
    unsafe fn host_bytes<'a>(&self, buffer: RawBuffer) -> Option<&'a mut [u8]> {
        let _ = buffer;
        None
    }

    /// Whether copies to and from the host reach the full speed of their link only with [locked pages](Device::lock_pages).
    fn locks_pages(&self) -> bool {
        false
    }

    /// Keeps memory of this process where it is, so that copies between it and this device need no copy by the host; `None` if
    /// the device need not or the system does not let it.
    ///
    /// # Safety
    /// `pages` are whole pages without anything else in them, and live until the lock is dropped; if it was not
    /// [idle](PageLock::is_idle) then, until the process ends. No call copies to or from them while it is dropped.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    unsafe fn lock_pages(&self, pages: RawBuffer) -> Result<Option<Box<dyn PageLock>>> {
        let _ = pages;
        Ok(None)
    }

    /// Makes a handle for GEMMs.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the vendor's library is missing, or
    /// [`matmul_choices`](crate::DeviceSettings::matmul_choices) names a file that does not hold choices;
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_blas(&self) -> Result<Arc<dyn Blas>>;

    /// The device's kernels.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if this build has no code for the device;
    /// [`Error::Vendor`](crate::Error::Vendor) when the code cannot be loaded.
    fn kernels(&self) -> Result<Arc<dyn Kernels>>;

    /// Creates the id of a new process group; one rank calls it and sends the id to the others.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the vendor's library is missing;
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_group(&self) -> Result<GroupId>;

    /// Joins a process group. Collective: returns once every rank of the group has joined.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a rank that is not a member or joins twice, and for an id from
    /// another backend or another process; [`Error::Mismatch`](crate::Error::Mismatch) when ranks name different
    /// members; [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not arrive;
    /// [`Error::Aborted`](crate::Error::Aborted); [`Error::Vendor`](crate::Error::Vendor).
    fn join(&self, join: Join) -> Result<Box<dyn Communicator>>;
}

/// The error of a device that was opened without the [vendor of its host](crate::OpenOptions::host), and whose host is to work.
pub fn without_host(device: DeviceId, threads: usize) -> crate::Error {
    crate::Error::invalid(
        format!("{threads} threads of the host beside {device}"),
        "a device that was opened without its host",
        "one that a program opens with the vendor `cpu` among its own",
    )
}
