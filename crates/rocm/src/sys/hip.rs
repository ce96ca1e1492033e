//! Functions and values of `hip/hip_runtime_api.h`.
//!
//! They are the same from HIP 5.7 to 7.x, but for the device's properties: a structure whose layout changed with 6.0, and
//! with it the symbol. Numbers are asked for by attribute instead, which kept its values.
//! Source: <https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api_reference.html>.

use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `hipError_t`.
pub type Status = c_int;
/// An opaque pointer: `hipStream_t`, `hipEvent_t`, `hipModule_t`, `hipFunction_t`, `hipGraph_t`, `hipGraphExec_t`.
pub type Opaque = *mut c_void;

/// `hipSuccess`.
pub const SUCCESS: Status = 0;
/// `hipErrorOutOfMemory`.
pub const ERROR_OUT_OF_MEMORY: Status = 2;
/// `hipErrorNoDevice`.
pub const ERROR_NO_DEVICE: Status = 100;
/// `hipErrorNotReady`.
pub const ERROR_NOT_READY: Status = 600;

/// `hipDeviceAttributeComputeCapabilityMajor`.
pub const ATTRIBUTE_CAPABILITY_MAJOR: c_int = 23;
/// `hipDeviceAttributeComputeCapabilityMinor`.
pub const ATTRIBUTE_CAPABILITY_MINOR: c_int = 61;
/// `hipDeviceAttributeMultiprocessorCount`.
pub const ATTRIBUTE_MULTIPROCESSORS: c_int = 63;
/// `hipDeviceAttributeMaxSharedMemoryPerBlock`.
pub const ATTRIBUTE_SHARED_PER_BLOCK: c_int = 74;
/// `hipDeviceAttributeWarpSize`.
pub const ATTRIBUTE_WARP_SIZE: c_int = 87;

/// `hipStreamNonBlocking`: not ordered with the default stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipEventDefault`: keeps the time.
pub const EVENT_DEFAULT: c_uint = 0;
/// `hipHostMallocPortable`: pinned for every device.
pub const HOST_PORTABLE: c_uint = 1;
/// `hipMemcpyHostToDevice`.
pub const COPY_TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
pub const COPY_TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`, which serves between devices too.
pub const COPY_ON_DEVICE: c_int = 3;
/// `hipStreamCaptureModeThreadLocal`: other threads go on as they like.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

function_table! {
    /// HIP's functions.
    pub struct Hip;
    required {
        fn hipInit(flags: c_uint) -> Status;
        fn hipRuntimeGetVersion(version: *mut c_int) -> Status;
        fn hipGetErrorString(status: Status) -> *const c_char;
        fn hipGetDeviceCount(count: *mut c_int) -> Status;
        fn hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Status;
        fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status;
        fn hipSetDevice(device: c_int) -> Status;
        fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status;
        fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Status;
        fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> Status;
        fn hipFree(pointer: *mut c_void) -> Status;
        fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
        fn hipHostFree(pointer: *mut c_void) -> Status;
        fn hipMemcpyAsync(
            dst: *mut c_void,
            src: *const c_void,
            bytes: usize,
            kind: c_int,
            stream: Opaque,
        ) -> Status;
        fn hipStreamCreateWithPriority(stream: *mut Opaque, flags: c_uint, priority: c_int) -> Status;
        fn hipStreamDestroy(stream: Opaque) -> Status;
        fn hipStreamQuery(stream: Opaque) -> Status;
        fn hipStreamWaitEvent(stream: Opaque, event: Opaque, flags: c_uint) -> Status;
        fn hipEventCreateWithFlags(event: *mut Opaque, flags: c_uint) -> Status;
        fn hipEventDestroy(event: Opaque) -> Status;
        fn hipEventRecord(event: Opaque, stream: Opaque) -> Status;
        fn hipEventQuery(event: Opaque) -> Status;
        fn hipEventElapsedTime(milliseconds: *mut f32, start: Opaque, end: Opaque) -> Status;
        fn hipModuleLoadData(module: *mut Opaque, image: *const c_void) -> Status;
        fn hipModuleUnload(module: Opaque) -> Status;
        fn hipModuleGetFunction(function: *mut Opaque, module: Opaque, name: *const c_char) -> Status;
        fn hipModuleLaunchKernel(
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
        ) -> Status;
        fn hipStreamBeginCapture(stream: Opaque, mode: c_int) -> Status;
        fn hipStreamEndCapture(stream: Opaque, graph: *mut Opaque) -> Status;
        fn hipGraphInstantiateWithFlags(executable: *mut Opaque, graph: Opaque, flags: c_ulonglong) -> Status;
        fn hipGraphLaunch(executable: Opaque, stream: Opaque) -> Status;
        fn hipGraphExecDestroy(executable: Opaque) -> Status;
        fn hipGraphDestroy(graph: Opaque) -> Status;
    }
    optional {
        fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) -> Status;
        fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) -> Status;
    }
}
