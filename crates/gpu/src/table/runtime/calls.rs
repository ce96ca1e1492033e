//! The calls that CUDA's driver and HIP's runtime have in common.

use super::{
    Address, CAPTURE_THREAD_LOCAL, EVENT_DEFAULT, Handle, KernelCall, LOCKED_PORTABLE, NO_DEVICE,
    NOT_READY, NOT_SUPPORTED, PINNED_PORTABLE, Properties, RuntimeTable, STREAM_NON_BLOCKING,
    VendorCalls, opaque,
};
use crate::table::{
    Outcome,
    functions::{call, status},
};
use hal::VendorId;
use std::{
    ffi::{CStr, c_int, c_void},
    ptr::null_mut,
};

/// The driver or runtime of one vendor.
///
/// Except for [`bind`](VendorCalls::bind) and the calls before it, every call acts on the context that the calling
/// thread is bound to.
///
/// # Errors
/// Every call returns a [`Fault`](crate::table::Fault) with the library's status and its meaning, for any status but
/// success and those that the call itself interprets.
pub trait Runtime: VendorCalls {
    /// Initialises the library, before any other call.
    fn initialise(&self) -> Outcome<()> {
        call!(self.table(), initialise(0))
    }

    /// The vendor.
    fn vendor(&self) -> VendorId {
        self.table().values.vendor
    }

    /// Major and minor version.
    fn release(&self) -> Outcome<(c_int, c_int)> {
        let (mut version, [major, minor]) = (0, self.table().values.version_units);
        call!(self.table(), version(&mut version))?;
        Ok((version / major, version % major / minor))
    }

    /// The version in words, as in `CUDA driver 13.0`.
    fn version(&self) -> Outcome<String> {
        let (major, minor) = self.release()?;
        Ok(format!("{} {major}.{minor}", self.table().values.library))
    }

    /// Number of devices that the process sees.
    fn device_count(&self) -> Outcome<usize> {
        let mut count = 0;
        let (name, status) = status!(self.table(), device_count(&mut count));
        if status == NO_DEVICE {
            return Ok(0);
        }
        self.table().statuses.check(name, status)?;
        Ok(count.max(0) as usize)
    }

    /// The properties of a device.
    fn properties(&self, device: c_int) -> Outcome<Properties> {
        let values = self.table().values;
        let attribute = |attribute| {
            let mut value = 0;
            call!(
                self.table(),
                device_attribute(&mut value, attribute, device)
            )?;
            Ok(value as u32)
        };
        let capability = (
            attribute(values.capability_major)?,
            attribute(values.capability_minor)?,
        );
        let mut name = [0; 256];
        call!(self.table(), device_name(name.as_mut_ptr(), 256, device))?;
        // SAFETY: the library ends the name with a zero within the buffer.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(Properties {
            name: name.to_string_lossy().into(),
            architecture: self.architecture(device, capability)?,
            capability,
            warp: attribute(values.warp)?,
            multiprocessors: attribute(values.multiprocessors)?,
            shared_bytes_per_block: attribute(values.shared_bytes_per_block)?,
        })
    }

    /// Free and total bytes.
    fn memory(&self) -> Outcome<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self.table(), memory_info(&mut free, &mut total))?;
        Ok((free, total))
    }

    /// Allocates device memory.
    fn allocate(&self, bytes: usize) -> Outcome<Address> {
        let mut address = 0;
        call!(self.table(), allocate(&mut address, bytes))?;
        Ok(address)
    }

    /// Allocates host memory that the device copies to and from at full speed.
    fn allocate_pinned(&self, bytes: usize) -> Outcome<*mut u8> {
        let mut pointer = null_mut();
        call!(
            self.table(),
            allocate_pinned(&mut pointer, bytes, PINNED_PORTABLE)
        )?;
        Ok(pointer.cast())
    }

    /// Frees pinned memory.
    ///
    /// # Safety
    /// The pointer came from `allocate_pinned`, is freed once, and no queued work uses it.
    unsafe fn free_pinned(&self, pointer: *mut u8) -> Outcome<()> {
        call!(self.table(), free_pinned(pointer.cast()))
    }

    /// Pins memory of the process; false if the system does not let it.
    ///
    /// # Safety
    /// The memory is live until [`unlock_pages`](Runtime::unlock_pages), in pages without anything else.
    unsafe fn lock_pages(&self, pointer: *mut u8, bytes: usize) -> Outcome<bool> {
        let (name, status) = status!(
            self.table(),
            lock_pages(pointer.cast(), bytes, LOCKED_PORTABLE)
        );
        if status == NOT_SUPPORTED {
            return Ok(false);
        }
        self.table().statuses.check(name, status)?;
        Ok(true)
    }

    /// Ends that.
    ///
    /// # Safety
    /// The memory was pinned, is unpinned once, and no queued work uses it.
    unsafe fn unlock_pages(&self, pointer: *mut u8) -> Outcome<()> {
        call!(self.table(), unlock_pages(pointer.cast()))
    }

    /// Makes a stream. An urgent stream runs before others where both have work.
    fn create_stream(&self, urgent: bool) -> Outcome<Handle> {
        let (mut least, mut greatest, mut stream) = (0, 0, null_mut());
        call!(self.table(), stream_priorities(&mut least, &mut greatest))?;
        let priority = if urgent { greatest } else { least };
        call!(
            self.table(),
            create_stream(&mut stream, STREAM_NON_BLOCKING, priority)
        )?;
        Ok(stream.addr())
    }

    /// Destroys a stream once its work has run; does not wait.
    ///
    /// # Safety
    /// The stream is live and not used again.
    unsafe fn destroy_stream(&self, stream: Handle) -> Outcome<()> {
        call!(self.table(), destroy_stream(opaque(stream)))
    }

    /// Whether all work queued so far has run.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn stream_is_idle(&self, stream: Handle) -> Outcome<bool> {
        ready(
            self.table(),
            status!(self.table(), query_stream(opaque(stream))),
        )
    }

    /// Makes later work of the stream wait for the event.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Outcome<()> {
        call!(self.table(), wait_event(opaque(stream), opaque(event), 0))
    }

    /// Makes an event that records the time.
    fn create_event(&self) -> Outcome<Handle> {
        let mut event = null_mut();
        call!(self.table(), create_event(&mut event, EVENT_DEFAULT))?;
        Ok(event.addr())
    }

    /// Destroys an event.
    ///
    /// # Safety
    /// The event is live and not used again.
    unsafe fn destroy_event(&self, event: Handle) -> Outcome<()> {
        call!(self.table(), destroy_event(opaque(event)))
    }

    /// Records the event behind the stream's queued work.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn record(&self, event: Handle, stream: Handle) -> Outcome<()> {
        call!(self.table(), record_event(opaque(event), opaque(stream)))
    }

    /// Whether the event has passed.
    ///
    /// # Safety
    /// The event is live.
    unsafe fn event_is_complete(&self, event: Handle) -> Outcome<bool> {
        ready(
            self.table(),
            status!(self.table(), query_event(opaque(event))),
        )
    }

    /// Milliseconds between two events that have both passed; negative when `end` passed first.
    ///
    /// # Safety
    /// Both are live.
    unsafe fn elapsed_ms(&self, start: Handle, end: Handle) -> Outcome<f32> {
        let mut milliseconds = 0.0;
        call!(
            self.table(),
            elapsed_time(&mut milliseconds, opaque(start), opaque(end))
        )?;
        Ok(milliseconds)
    }

    /// Loads a code object.
    fn load_module(&self, image: &[u8]) -> Outcome<Handle> {
        let mut module = null_mut();
        call!(
            self.table(),
            load_module(&mut module, image.as_ptr().cast())
        )?;
        Ok(module.addr())
    }

    /// Unloads a code object.
    ///
    /// # Safety
    /// The module is live, none of its functions runs, and none is used again.
    unsafe fn unload_module(&self, module: Handle) -> Outcome<()> {
        call!(self.table(), unload_module(opaque(module)))
    }

    /// A device function by name.
    ///
    /// # Safety
    /// The module is live.
    unsafe fn function(&self, module: Handle, name: &CStr) -> Outcome<Handle> {
        let mut function = null_mut();
        call!(
            self.table(),
            module_function(&mut function, opaque(module), name.as_ptr())
        )?;
        Ok(function.addr())
    }

    /// Queues a function that takes one struct by value.
    ///
    /// # Safety
    /// `arguments` holds the struct that the function takes. The memory that it points to is live until it has run.
    unsafe fn launch(&self, launch: &KernelCall<'_>, stream: Handle) -> Outcome<()> {
        let mut parameters: [*mut c_void; 1] = [launch.arguments.as_ptr().cast_mut().cast()];
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
        call!(
            self.table(),
            launch_kernel(
                opaque(launch.function),
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                launch.shared_bytes,
                opaque(stream),
                parameters.as_mut_ptr(),
                null_mut(),
            )
        )
    }

    /// Starts to record the stream's work instead of running it.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn begin_capture(&self, stream: Handle) -> Outcome<()> {
        call!(
            self.table(),
            begin_capture(opaque(stream), CAPTURE_THREAD_LOCAL)
        )
    }

    /// Ends the recording and returns it as an executable graph.
    ///
    /// # Safety
    /// The stream is live and records.
    unsafe fn end_capture(&self, stream: Handle) -> Outcome<Handle> {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        call!(self.table(), end_capture(opaque(stream), &mut graph))?;
        let made = call!(self.table(), instantiate_graph(&mut executable, graph, 0));
        let ended = call!(self.table(), destroy_graph(graph));
        made.and(ended)?;
        Ok(executable.addr())
    }

    /// Queues everything that was recorded.
    ///
    /// # Safety
    /// Both are live, and so is all memory that the recorded work uses.
    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Outcome<()> {
        call!(self.table(), launch_graph(opaque(graph), opaque(stream)))
    }

    /// Destroys an executable graph.
    ///
    /// # Safety
    /// The graph is live, does not run, and is not used again.
    unsafe fn destroy_graph(&self, graph: Handle) -> Outcome<()> {
        call!(self.table(), destroy_executable(opaque(graph)))
    }
}

impl<V: VendorCalls + ?Sized> Runtime for V {}

// The outcome of a query. Unfinished work is no fault, and queries are too frequent to look up its text.
fn ready(table: &RuntimeTable, (call, status): (&'static str, c_int)) -> Outcome<bool> {
    if status == NOT_READY {
        return Ok(false);
    }
    table.statuses.check(call, status).map(|()| true)
}
