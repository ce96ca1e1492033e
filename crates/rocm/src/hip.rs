//! HIP's runtime: its names, its numbers, and the calls that CUDA's driver makes differently.
//!
//! They are the same from HIP 5.7 to 7.x, except the device's properties: HIP 6.0 changed the layout of the struct and
//! the symbol of the function. We query numbers by attribute instead, whose values have not changed. HIP has no
//! contexts worth holding: a thread is bound to a device by its number, which serves as the handle.
//! Source: <https://rocm.docs.amd.com/projects/HIP/en/latest/reference/hip_runtime_api_reference.html>.

use gpu::table::{
    Address, Fault, Handle, OUT_OF_MEMORY, Opaque, Outcome, RuntimeFunctions, RuntimeNames,
    RuntimeTable, RuntimeValues, Status, Statuses, VendorCalls, opaque, pointer,
};
use hal::VendorId;
use rccl_sys::{Library, Missing, function_table};
use std::ffi::{c_char, c_int, c_void};

/// HIP's names for the functions that CUDA has too.
pub const NAMES: RuntimeNames = RuntimeNames {
    initialise: "hipInit",
    version: "hipRuntimeGetVersion",
    device_count: "hipGetDeviceCount",
    device_name: "hipDeviceGetName",
    device_attribute: "hipDeviceGetAttribute",
    stream_priorities: "hipDeviceGetStreamPriorityRange",
    memory_info: "hipMemGetInfo",
    allocate: "hipMalloc",
    allocate_pinned: "hipHostMalloc",
    free_pinned: "hipHostFree",
    lock_pages: "hipHostRegister",
    unlock_pages: "hipHostUnregister",
    create_stream: "hipStreamCreateWithPriority",
    destroy_stream: "hipStreamDestroy",
    query_stream: "hipStreamQuery",
    wait_event: "hipStreamWaitEvent",
    create_event: "hipEventCreateWithFlags",
    destroy_event: "hipEventDestroy",
    record_event: "hipEventRecord",
    query_event: "hipEventQuery",
    elapsed_time: "hipEventElapsedTime",
    load_module: "hipModuleLoadData",
    unload_module: "hipModuleUnload",
    module_function: "hipModuleGetFunction",
    launch_kernel: "hipModuleLaunchKernel",
    begin_capture: "hipStreamBeginCapture",
    end_capture: "hipStreamEndCapture",
    instantiate_graph: "hipGraphInstantiateWithFlags",
    launch_graph: "hipGraphLaunch",
    destroy_executable: "hipGraphExecDestroy",
    destroy_graph: "hipGraphDestroy",
};

/// HIP's numbers: `hipDeviceAttribute` values, and 60443484 for version 6.4.
pub const VALUES: RuntimeValues = RuntimeValues {
    vendor: VendorId::ROCM,
    library: "HIP",
    version_units: [10_000_000, 100_000],
    capability_major: 23,
    capability_minor: 61,
    warp: 87,
    multiprocessors: 63,
    shared_bytes_per_block: 74,
};

/// `hipMemcpyHostToDevice`.
pub const COPY_TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
pub const COPY_TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`, which serves between devices too.
pub const COPY_ON_DEVICE: c_int = 3;

function_table! {
    /// HIP's own functions.
    pub struct Hip;
    required {
        fn hipGetErrorString(status: Status) -> *const c_char;
        fn hipSetDevice(device: c_int) -> Status;
        fn hipFree(pointer: *mut c_void) -> Status;
        fn hipMemcpyAsync(
            dst: *mut c_void,
            src: *const c_void,
            bytes: usize,
            kind: c_int,
            stream: Opaque,
        ) -> Status;
    }
    optional {
        fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) -> Status;
        fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) -> Status;
    }
}

/// The runtime, loaded.
#[derive(Debug)]
pub(crate) struct HipRuntime {
    table: RuntimeTable,
    own: Hip,
    statuses: Statuses,
}

// Larger than the struct of properties in any version, which only grows.
const PROPERTIES_BYTES: usize = 16 << 10;

impl HipRuntime {
    /// Looks up the runtime's functions.
    ///
    /// # Errors
    /// [`Missing`] naming one that this version lacks.
    pub(crate) fn load(library: &Library) -> Result<HipRuntime, Missing> {
        let own = Hip::load(library)?;
        // SAFETY: the function returns a constant text for any status.
        let statuses = unsafe { Statuses::returned(OUT_OF_MEMORY, Some(own.hipGetErrorString)) };
        // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the
        // headers.
        let functions = unsafe { RuntimeFunctions::load(library, &NAMES) }?;
        // SAFETY: all are HIP's; the test compares the numbers too.
        let table = unsafe { RuntimeTable::new(functions, statuses, VALUES) };
        Ok(HipRuntime {
            table,
            own,
            statuses,
        })
    }

    // Safety: as for the copies of `VendorCalls`.
    unsafe fn copy_of_kind(
        &self,
        kind: c_int,
        dst: *mut c_void,
        src: *const c_void,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        // SAFETY: the caller vouches for both regions and the stream.
        let status = unsafe { (self.own.hipMemcpyAsync)(dst, src, bytes, kind, opaque(stream)) };
        self.statuses.check("hipMemcpyAsync", status)
    }
}

// SAFETY: each method makes the calls that its documentation names; handles are the runtime's numbers of devices.
unsafe impl VendorCalls for HipRuntime {
    fn table(&self) -> &RuntimeTable {
        &self.table
    }

    fn device(&self, ordinal: usize) -> Outcome<c_int> {
        Ok(ordinal as c_int)
    }

    // No attribute holds it. The properties do, at an offset that differs between versions. In every version it is the
    // only text that begins with `gfx`.
    fn architecture(&self, device: c_int, _capability: (u32, u32)) -> Outcome<String> {
        let call = "hipGetDeviceProperties";
        let unknown = |reason: &str| Fault {
            call,
            code: -1,
            reason: reason.into(),
            out_of_memory: false,
        };
        let newest = self.own.hipGetDevicePropertiesR0600;
        let function = newest
            .or(self.own.hipGetDeviceProperties)
            .ok_or_else(|| unknown("the library has no such function"))?;
        let mut properties = vec![0u64; PROPERTIES_BYTES / size_of::<u64>()];
        // SAFETY: the buffer is larger than the structure of any version, and aligned for it.
        let status = unsafe { function(properties.as_mut_ptr().cast(), device) };
        self.statuses.check(call, status)?;
        let bytes: Vec<u8> = properties
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        architecture_in(&bytes)
            .ok_or_else(|| unknown("the device's architecture is not among them"))
    }

    fn open(&self, device: c_int) -> Outcome<Handle> {
        Ok(device as Handle)
    }

    unsafe fn close(&self, _device: c_int) -> Outcome<()> {
        Ok(())
    }

    unsafe fn bind(&self, context: Handle) -> Outcome<()> {
        // SAFETY: the function takes any number, and refuses those that are no device's.
        let status = unsafe { (self.own.hipSetDevice)(context as c_int) };
        self.statuses.check("hipSetDevice", status)
    }

    unsafe fn free(&self, address: Address) -> Outcome<()> {
        // SAFETY: the caller vouches for the address.
        let status = unsafe { (self.own.hipFree)(pointer(address)) };
        self.statuses.check("hipFree", status)
    }

    unsafe fn copy(&self, dst: Address, src: Address, bytes: usize, stream: Handle) -> Outcome<()> {
        // SAFETY: passed on from the caller, here and below.
        unsafe { self.copy_of_kind(COPY_ON_DEVICE, pointer(dst), pointer(src), bytes, stream) }
    }

    unsafe fn copy_to_device(
        &self,
        dst: Address,
        src: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        // SAFETY: as above.
        unsafe { self.copy_of_kind(COPY_TO_DEVICE, pointer(dst), src.cast(), bytes, stream) }
    }

    unsafe fn copy_to_host(
        &self,
        dst: *mut u8,
        src: Address,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        // SAFETY: as above.
        unsafe { self.copy_of_kind(COPY_TO_HOST, dst.cast(), pointer(src), bytes, stream) }
    }

    // A block may always use all shared memory of its compute unit, and can never have more.
    unsafe fn allow_shared(&self, _function: Handle, bytes: u32) -> Outcome<()> {
        Err(Fault {
            call: NAMES.launch_kernel,
            code: 1,
            reason: format!("{bytes} bytes of shared memory for a block"),
            out_of_memory: false,
        })
    }
}

fn architecture_in(properties: &[u8]) -> Option<String> {
    let start = properties.windows(3).position(|window| window == b"gfx")?;
    let name = properties[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric());
    Some(name.map(|&byte| char::from(byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_found_wherever_it_lies() {
        let mut properties = b"AMD Instinct MI250X\0\0\0\x10\0".to_vec();
        properties.extend(b"gfx90a:sramecc+:xnack-\0\0");
        assert_eq!(architecture_in(&properties).as_deref(), Some("gfx90a"));
        assert_eq!(architecture_in(b"no such text"), None);
    }
}
