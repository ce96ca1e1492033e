//! What each vendor states about its driver or runtime, and the calls that differ between the two.

use super::functions::RuntimeFunctions;
use crate::table::{Address, Handle, Outcome, Statuses};
use hal::VendorId;
use std::{ffi::c_int, fmt};

/// Numbers and words of one vendor.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeValues {
    /// The vendor.
    pub vendor: VendorId,
    /// The driver or runtime in words, as in `CUDA driver`.
    pub library: &'static str,
    /// The weights of the major and of the minor version in the version number.
    pub version_units: [c_int; 2],
    /// Attribute of the major compute capability.
    pub capability_major: c_int,
    /// Attribute of the minor compute capability.
    pub capability_minor: c_int,
    /// Attribute of the number of threads in a warp.
    pub warp: c_int,
    /// Attribute of the number of multiprocessors or compute units.
    pub multiprocessors: c_int,
    /// Attribute of the shared memory that a block may use without a request for more.
    pub shared_bytes_per_block: c_int,
}

/// The table behind the calls that both vendors have in common.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeTable {
    pub(crate) functions: RuntimeFunctions,
    pub(crate) statuses: Statuses,
    pub(crate) values: RuntimeValues,
}

impl RuntimeTable {
    /// The table of one vendor.
    ///
    /// # Safety
    /// The functions are those of the vendor's driver or runtime, and the attributes its own.
    pub unsafe fn new(
        functions: RuntimeFunctions,
        statuses: Statuses,
        values: RuntimeValues,
    ) -> RuntimeTable {
        RuntimeTable {
            functions,
            statuses,
            values,
        }
    }
}

/// The calls that each vendor makes in its own way.
///
/// # Errors
/// As for [`Runtime`](super::Runtime).
///
/// # Safety
/// The methods do what the C functions that they call document, and nothing else; no handle is returned twice.
pub unsafe trait VendorCalls: Send + Sync + fmt::Debug {
    /// The calls that do not differ.
    fn table(&self) -> &RuntimeTable;

    /// The vendor's number of a device.
    fn device(&self, ordinal: usize) -> Outcome<c_int>;

    /// The architecture of a device with this compute capability, as code objects name it.
    fn architecture(&self, device: c_int, capability: (u32, u32)) -> Outcome<String>;

    /// Opens a device's context, which all ranks of the process share.
    fn open(&self, device: c_int) -> Outcome<Handle>;

    /// Closes a device's context.
    ///
    /// # Safety
    /// The context came from `open` of that device and is closed once; everything made in it is destroyed.
    unsafe fn close(&self, device: c_int) -> Outcome<()>;

    /// Binds the calling thread to a context.
    ///
    /// # Safety
    /// `context` is open.
    unsafe fn bind(&self, context: Handle) -> Outcome<()>;

    /// Frees device memory.
    ///
    /// # Safety
    /// The address came from [`Runtime::allocate`](super::Runtime::allocate), is freed once, and no queued work uses it.
    unsafe fn free(&self, address: Address) -> Outcome<()>;

    /// Queues a copy between device addresses.
    ///
    /// # Safety
    /// Both regions are live until the copy has run and do not overlap; the stream is live.
    unsafe fn copy(&self, dst: Address, src: Address, bytes: usize, stream: Handle) -> Outcome<()>;

    /// Queues a copy from pinned memory.
    ///
    /// # Safety
    /// As for `copy`.
    unsafe fn copy_to_device(
        &self,
        dst: Address,
        src: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()>;

    /// Queues a copy to pinned memory.
    ///
    /// # Safety
    /// As for `copy`.
    unsafe fn copy_to_host(
        &self,
        dst: *mut u8,
        src: Address,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()>;

    /// Lets the blocks of a function have that much shared memory.
    ///
    /// # Safety
    /// The function's module is live.
    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Outcome<()>;
}
