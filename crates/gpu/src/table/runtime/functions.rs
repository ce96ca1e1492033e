//! The functions that CUDA's driver and HIP's runtime have in common.

use crate::table::{Opaque, functions::functions};
use std::ffi::{c_char, c_int, c_uint, c_void};

functions! {
    /// The functions of a driver or runtime.
    ///
    /// An address is a number in CUDA and a pointer in HIP. Where it is passed by value the signatures differ, and the
    /// function is one of [`VendorCalls`](super::VendorCalls).
    pub struct RuntimeFunctions, named by RuntimeNames;
    fn initialise(flags: c_uint);
    fn version(version: *mut c_int);
    fn device_count(count: *mut c_int);
    fn device_name(name: *mut c_char, length: c_int, device: c_int);
    fn device_attribute(value: *mut c_int, attribute: c_int, device: c_int);
    fn stream_priorities(least: *mut c_int, greatest: *mut c_int);
    fn memory_info(free: *mut usize, total: *mut usize);
    fn allocate(address: *mut u64, bytes: usize);
    fn allocate_pinned(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn free_pinned(pointer: *mut c_void);
    fn lock_pages(pointer: *mut c_void, bytes: usize, flags: c_uint);
    fn unlock_pages(pointer: *mut c_void);
    fn create_stream(stream: *mut Opaque, flags: c_uint, priority: c_int);
    fn destroy_stream(stream: Opaque);
    fn query_stream(stream: Opaque);
    fn wait_event(stream: Opaque, event: Opaque, flags: c_uint);
    fn create_event(event: *mut Opaque, flags: c_uint);
    fn destroy_event(event: Opaque);
    fn record_event(event: Opaque, stream: Opaque);
    fn query_event(event: Opaque);
    fn elapsed_time(milliseconds: *mut f32, start: Opaque, end: Opaque);
    fn load_module(module: *mut Opaque, image: *const c_void);
    fn unload_module(module: Opaque);
    fn module_function(function: *mut Opaque, module: Opaque, name: *const c_char);
    fn launch_kernel(
        function: Opaque,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Opaque,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    fn begin_capture(stream: Opaque, mode: c_int);
    fn end_capture(stream: Opaque, graph: *mut Opaque);
    fn instantiate_graph(executable: *mut Opaque, graph: Opaque, flags: u64);
    fn launch_graph(executable: Opaque, stream: Opaque);
    fn destroy_executable(executable: Opaque);
    fn destroy_graph(graph: Opaque);
}

// The same numbers in both; the vendor crates' tests compare them with the headers.

/// The status for too little device memory.
pub const OUT_OF_MEMORY: c_int = 2;
/// The status for a machine without devices.
pub const NO_DEVICE: c_int = 100;
/// The status of a query whose work has not finished yet.
pub const NOT_READY: c_int = 600;
/// Flag of a stream that is not ordered with the default stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// Flag of an event that records the time.
pub const EVENT_DEFAULT: c_uint = 0;
/// Flag of pinned memory that every context can use.
pub const PINNED_PORTABLE: c_uint = 1;
/// Flag of memory that is pinned for every context.
pub const LOCKED_PORTABLE: c_uint = 1;
/// The status of something that the system or the device lacks.
pub const NOT_SUPPORTED: c_int = 801;
/// Mode of a capture that does not restrict what other threads call.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;
