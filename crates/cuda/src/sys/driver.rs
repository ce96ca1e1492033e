//! Functions and values of `cuda.h`.
//!
//! Where a function exists in several versions, the field is the symbol that the header's macro names.
//! Source: <https://docs.nvidia.com/cuda/cuda-driver-api/>.

use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `CUresult`.
pub type Status = c_int;
/// `CUdevice`.
pub type Device = c_int;
/// `CUdeviceptr`.
pub type Address = u64;
/// An opaque pointer: `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`, `CUgraph`, `CUgraphExec`.
pub type Opaque = *mut c_void;

/// `CUDA_SUCCESS`.
pub const SUCCESS: Status = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const ERROR_OUT_OF_MEMORY: Status = 2;
/// `CUDA_ERROR_NO_DEVICE`.
pub const ERROR_NO_DEVICE: Status = 100;
/// `CUDA_ERROR_NOT_READY`.
pub const ERROR_NOT_READY: Status = 600;

/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK`.
pub const ATTRIBUTE_SHARED_PER_BLOCK: c_int = 8;
/// `CU_DEVICE_ATTRIBUTE_WARP_SIZE`.
pub const ATTRIBUTE_WARP_SIZE: c_int = 10;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const ATTRIBUTE_MULTIPROCESSORS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const ATTRIBUTE_CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const ATTRIBUTE_CAPABILITY_MINOR: c_int = 76;

/// `CU_STREAM_NON_BLOCKING`: not ordered with the default stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: keeps the time.
pub const EVENT_DEFAULT: c_uint = 0;
/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context.
pub const HOST_PORTABLE: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const FUNCTION_MAX_SHARED: c_int = 8;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads go on as they like.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

function_table! {
    /// The driver's functions.
    pub struct Driver;
    required {
        fn cuInit(flags: c_uint) -> Status;
        fn cuDriverGetVersion(version: *mut c_int) -> Status;
        fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status;
        fn cuDeviceGetCount(count: *mut c_int) -> Status;
        fn cuDeviceGet(device: *mut Device, ordinal: c_int) -> Status;
        fn cuDeviceGetName(name: *mut c_char, length: c_int, device: Device) -> Status;
        fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: Device) -> Status;
        fn cuDevicePrimaryCtxRetain(context: *mut Opaque, device: Device) -> Status;
        fn cuDevicePrimaryCtxRelease_v2(device: Device) -> Status;
        fn cuCtxSetCurrent(context: Opaque) -> Status;
        fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status;
        fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status;
        fn cuMemAlloc_v2(address: *mut Address, bytes: usize) -> Status;
        fn cuMemFree_v2(address: Address) -> Status;
        fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
        fn cuMemFreeHost(pointer: *mut c_void) -> Status;
        fn cuMemcpyAsync(dst: Address, src: Address, bytes: usize, stream: Opaque) -> Status;
        fn cuMemcpyHtoDAsync_v2(dst: Address, src: *const c_void, bytes: usize, stream: Opaque) -> Status;
        fn cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: Address, bytes: usize, stream: Opaque) -> Status;
        fn cuStreamCreateWithPriority(stream: *mut Opaque, flags: c_uint, priority: c_int) -> Status;
        fn cuStreamDestroy_v2(stream: Opaque) -> Status;
        fn cuStreamQuery(stream: Opaque) -> Status;
        fn cuStreamWaitEvent(stream: Opaque, event: Opaque, flags: c_uint) -> Status;
        fn cuEventCreate(event: *mut Opaque, flags: c_uint) -> Status;
        fn cuEventDestroy_v2(event: Opaque) -> Status;
        fn cuEventRecord(event: Opaque, stream: Opaque) -> Status;
        fn cuEventQuery(event: Opaque) -> Status;
        fn cuEventElapsedTime(milliseconds: *mut f32, start: Opaque, end: Opaque) -> Status;
        fn cuModuleLoadData(module: *mut Opaque, image: *const c_void) -> Status;
        fn cuModuleUnload(module: Opaque) -> Status;
        fn cuModuleGetFunction(function: *mut Opaque, module: Opaque, name: *const c_char) -> Status;
        fn cuFuncSetAttribute(function: Opaque, attribute: c_int, value: c_int) -> Status;
        fn cuLaunchKernel(
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
        fn cuStreamBeginCapture_v2(stream: Opaque, mode: c_int) -> Status;
        fn cuStreamEndCapture(stream: Opaque, graph: *mut Opaque) -> Status;
        fn cuGraphInstantiateWithFlags(executable: *mut Opaque, graph: Opaque, flags: u64) -> Status;
        fn cuGraphLaunch(executable: Opaque, stream: Opaque) -> Status;
        fn cuGraphExecDestroy(executable: Opaque) -> Status;
        fn cuGraphDestroy(graph: Opaque) -> Status;
    }
    optional {}
}
