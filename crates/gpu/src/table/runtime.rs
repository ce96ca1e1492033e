//! Driver calls: contexts, memory, streams, events, modules, graphs.

use super::Outcome;
use hal::VendorId;
use std::{ffi::CStr, fmt};

/// A vendor's own handle: a pointer, or a number that stands for one.
pub type Handle = usize;

/// An address on the device.
pub type Address = u64;

/// What a device is, as far as launches and messages depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The marketing name.
    pub name: String,
    /// The architecture as code objects name it: `sm_90`, `gfx90a`.
    pub architecture: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Threads that run in step.
    pub warp: u32,
    /// Multiprocessors or compute units.
    pub multiprocessors: u32,
    /// Shared memory that a block may have without asking for more.
    pub shared_bytes_per_block: u32,
}

/// The driver or runtime of one vendor.
///
/// But for `bind` and what comes before it, every call acts on the context that the calling thread is bound to.
///
/// # Safety
/// The methods do what their C functions document, and nothing else; a handle is handed out once.
pub unsafe trait Runtime: Send + Sync + fmt::Debug {
    /// Whose it is.
    fn vendor(&self) -> VendorId;

    /// The version in words, as in `CUDA driver 13.0`.
    fn version(&self) -> Outcome<String>;

    /// Devices that the process sees.
    fn device_count(&self) -> Outcome<usize>;

    /// What a device is.
    fn properties(&self, ordinal: usize) -> Outcome<Properties>;

    /// Takes hold of a device's context, which all ranks of the process share.
    fn open(&self, ordinal: usize) -> Outcome<Handle>;

    /// Lets go of it.
    ///
    /// # Safety
    /// `context` came from `open` of that ordinal and is closed once; what was made in it is gone.
    unsafe fn close(&self, ordinal: usize, context: Handle) -> Outcome<()>;

    /// Makes the context that of the calling thread.
    ///
    /// # Safety
    /// `context` is open.
    unsafe fn bind(&self, context: Handle) -> Outcome<()>;

    /// Free and total bytes.
    fn memory(&self) -> Outcome<(usize, usize)>;

    /// Reserves device memory.
    fn allocate(&self, bytes: usize) -> Outcome<Address>;

    /// Gives it back.
    ///
    /// # Safety
    /// The address came from `allocate`, is freed once, and no queued work uses it.
    unsafe fn free(&self, address: Address) -> Outcome<()>;

    /// Reserves host memory that the device copies from and to at full speed.
    fn allocate_pinned(&self, bytes: usize) -> Outcome<*mut u8>;

    /// Gives it back.
    ///
    /// # Safety
    /// The pointer came from `allocate_pinned`, is freed once, and no queued work uses it.
    unsafe fn free_pinned(&self, pointer: *mut u8) -> Outcome<()>;

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

    /// Makes a stream; an urgent one goes before others where both have work.
    fn create_stream(&self, urgent: bool) -> Outcome<Handle>;

    /// Ends a stream once its work has run; does not wait.
    ///
    /// # Safety
    /// The stream is live and not used again.
    unsafe fn destroy_stream(&self, stream: Handle) -> Outcome<()>;

    /// Whether all work queued so far has run.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn stream_is_idle(&self, stream: Handle) -> Outcome<bool>;

    /// Makes later work of the stream wait for the event.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Outcome<()>;

    /// Makes an event that keeps the time.
    fn create_event(&self) -> Outcome<Handle>;

    /// Ends an event.
    ///
    /// # Safety
    /// The event is live and not used again.
    unsafe fn destroy_event(&self, event: Handle) -> Outcome<()>;

    /// Marks the point that the stream has reached.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn record(&self, event: Handle, stream: Handle) -> Outcome<()>;

    /// Whether the marked point has been passed.
    ///
    /// # Safety
    /// The event is live.
    unsafe fn event_is_complete(&self, event: Handle) -> Outcome<bool>;

    /// Milliseconds between two events that were both passed; negative when `end` came first.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn elapsed_ms(&self, start: Handle, end: Handle) -> Outcome<f32>;

    /// Loads a code object.
    fn load_module(&self, image: &[u8]) -> Outcome<Handle>;

    /// Unloads it.
    ///
    /// # Safety
    /// The module is live, none of its functions runs, and none is used again.
    unsafe fn unload_module(&self, module: Handle) -> Outcome<()>;

    /// A device function by name.
    ///
    /// # Safety
    /// The module is live.
    unsafe fn function(&self, module: Handle, name: &CStr) -> Outcome<Handle>;

    /// Lets a function have that much shared memory.
    ///
    /// # Safety
    /// The function's module is live.
    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Outcome<()>;

    /// Queues a function that takes one structure by value.
    ///
    /// # Safety
    /// `arguments` holds the structure that the function takes, and what it points to is live until it has run.
    unsafe fn launch(&self, launch: &KernelCall<'_>, stream: Handle) -> Outcome<()>;

    /// Starts to record the stream's work instead of running it.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn begin_capture(&self, stream: Handle) -> Outcome<()>;

    /// Ends the recording and makes it executable.
    ///
    /// # Safety
    /// The stream is live and records.
    unsafe fn end_capture(&self, stream: Handle) -> Outcome<Handle>;

    /// Queues everything that was recorded.
    ///
    /// # Safety
    /// Both are live, and so is all memory that the recorded work uses.
    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Outcome<()>;

    /// Ends a recording.
    ///
    /// # Safety
    /// The graph is live, does not run, and is not used again.
    unsafe fn destroy_graph(&self, graph: Handle) -> Outcome<()>;
}

/// A launch, resolved to a function of this device.
#[derive(Clone, Copy, Debug)]
pub struct KernelCall<'a> {
    /// From [`Runtime::function`].
    pub function: Handle,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The bytes of the one argument.
    pub arguments: &'a [u8],
}
