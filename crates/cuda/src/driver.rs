//! The CUDA driver: its names, its numbers, and the calls that HIP's runtime makes differently.
//!
//! Where a function exists in several versions, the name is the symbol that the header's macro stands for.
//! Source: <https://docs.nvidia.com/cuda/cuda-driver-api/>.

use gpu::table::{
    Address, Handle, OUT_OF_MEMORY, Opaque, Outcome, RuntimeFunctions, RuntimeNames, RuntimeTable,
    RuntimeValues, Status, Statuses, VendorCalls, opaque,
};
use hal::VendorId;
use rccl_sys::{Library, Missing, function_table};
use std::ffi::{c_char, c_int, c_void};

/// The driver's names for the functions that HIP has too.
pub const NAMES: RuntimeNames = RuntimeNames {
    initialise: "cuInit",
    version: "cuDriverGetVersion",
    device_count: "cuDeviceGetCount",
    device_name: "cuDeviceGetName",
    device_attribute: "cuDeviceGetAttribute",
    stream_priorities: "cuCtxGetStreamPriorityRange",
    memory_info: "cuMemGetInfo_v2",
    allocate: "cuMemAlloc_v2",
    allocate_pinned: "cuMemHostAlloc",
    free_pinned: "cuMemFreeHost",
    lock_pages: "cuMemHostRegister_v2",
    unlock_pages: "cuMemHostUnregister",
    create_stream: "cuStreamCreateWithPriority",
    destroy_stream: "cuStreamDestroy_v2",
    query_stream: "cuStreamQuery",
    wait_event: "cuStreamWaitEvent",
    create_event: "cuEventCreate",
    destroy_event: "cuEventDestroy_v2",
    record_event: "cuEventRecord",
    query_event: "cuEventQuery",
    elapsed_time: "cuEventElapsedTime",
    load_module: "cuModuleLoadData",
    unload_module: "cuModuleUnload",
    module_function: "cuModuleGetFunction",
    launch_kernel: "cuLaunchKernel",
    begin_capture: "cuStreamBeginCapture_v2",
    end_capture: "cuStreamEndCapture",
    instantiate_graph: "cuGraphInstantiateWithFlags",
    launch_graph: "cuGraphLaunch",
    destroy_executable: "cuGraphExecDestroy",
    destroy_graph: "cuGraphDestroy",
};

/// The driver's numbers: `CU_DEVICE_ATTRIBUTE_` values, and 13000 for version 13.0.
pub const VALUES: RuntimeValues = RuntimeValues {
    vendor: VendorId::CUDA,
    library: "CUDA driver",
    version_units: [1000, 10],
    capability_major: 75,
    capability_minor: 76,
    warp: 10,
    multiprocessors: 16,
    shared_bytes_per_block: 8,
};

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const FUNCTION_MAX_SHARED: c_int = 8;

function_table! {
    /// The driver's own functions. `Address` is `CUdeviceptr`, and a device is a `CUdevice`.
    pub struct Driver;
    required {
        fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status;
        fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status;
        fn cuDevicePrimaryCtxRetain(context: *mut Opaque, device: c_int) -> Status;
        fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status;
        fn cuCtxSetCurrent(context: Opaque) -> Status;
        fn cuMemFree_v2(address: Address) -> Status;
        fn cuMemcpyAsync(dst: Address, src: Address, bytes: usize, stream: Opaque) -> Status;
        fn cuMemcpyHtoDAsync_v2(dst: Address, src: *const c_void, bytes: usize, stream: Opaque) -> Status;
        fn cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: Address, bytes: usize, stream: Opaque) -> Status;
        fn cuFuncSetAttribute(function: Opaque, attribute: c_int, value: c_int) -> Status;
    }
    optional {}
}

/// The driver, loaded.
#[derive(Debug)]
pub(crate) struct CudaDriver {
    table: RuntimeTable,
    own: Driver,
    statuses: Statuses,
}

impl CudaDriver {
    /// Looks up the driver's functions.
    ///
    /// # Errors
    /// [`Missing`] naming one that this version lacks.
    pub(crate) fn load(library: &Library) -> Result<CudaDriver, Missing> {
        let own = Driver::load(library)?;
        // SAFETY: the function stores a constant text for any status that it knows.
        let statuses = unsafe { Statuses::stored(OUT_OF_MEMORY, own.cuGetErrorString) };
        // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the
        // headers.
        let functions = unsafe { RuntimeFunctions::load(library, &NAMES) }?;
        // SAFETY: all are the driver's; the test compares the numbers too.
        let table = unsafe { RuntimeTable::new(functions, statuses, VALUES) };
        Ok(CudaDriver {
            table,
            own,
            statuses,
        })
    }
}

// One call of the driver's own; a status other than success becomes a fault under the function's name.
macro_rules! call {
    ($self:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers
        // for.
        let status = unsafe { ($self.own.$function)($($argument),*) };
        $self.statuses.check(stringify!($function), status)
    }};
}

// SAFETY: each method makes the calls that its documentation names; handles come from the driver.
unsafe impl VendorCalls for CudaDriver {
    fn table(&self) -> &RuntimeTable {
        &self.table
    }

    fn device(&self, ordinal: usize) -> Outcome<c_int> {
        let mut device = 0;
        call!(self.cuDeviceGet(&mut device, ordinal as c_int))?;
        Ok(device)
    }

    fn architecture(&self, _device: c_int, (major, minor): (u32, u32)) -> Outcome<String> {
        Ok(format!("sm_{major}{minor}"))
    }

    fn open(&self, device: c_int) -> Outcome<Handle> {
        let mut context = std::ptr::null_mut();
        call!(self.cuDevicePrimaryCtxRetain(&mut context, device))?;
        Ok(context.addr())
    }

    unsafe fn close(&self, device: c_int) -> Outcome<()> {
        call!(self.cuDevicePrimaryCtxRelease_v2(device))
    }

    unsafe fn bind(&self, context: Handle) -> Outcome<()> {
        call!(self.cuCtxSetCurrent(opaque(context)))
    }

    unsafe fn free(&self, address: Address) -> Outcome<()> {
        call!(self.cuMemFree_v2(address))
    }

    unsafe fn copy(&self, dst: Address, src: Address, bytes: usize, stream: Handle) -> Outcome<()> {
        call!(self.cuMemcpyAsync(dst, src, bytes, opaque(stream)))
    }

    unsafe fn copy_to_device(
        &self,
        dst: Address,
        src: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.cuMemcpyHtoDAsync_v2(dst, src.cast(), bytes, opaque(stream)))
    }

    unsafe fn copy_to_host(
        &self,
        dst: *mut u8,
        src: Address,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.cuMemcpyDtoHAsync_v2(dst.cast(), src, bytes, opaque(stream)))
    }

    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Outcome<()> {
        call!(self.cuFuncSetAttribute(opaque(function), FUNCTION_MAX_SHARED, bytes as c_int))
    }
}
