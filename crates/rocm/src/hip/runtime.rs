//! The calls, one method each.

use super::{HipRuntime, call, opaque, pointer};
use crate::sys::hip::*;
use gpu::table::{Address, Fault, Handle, KernelCall, Outcome, Properties, Runtime};
use hal::VendorId;
use std::ffi::{CStr, c_int, c_void};

// SAFETY: each method makes the calls that its documentation names; handles come from the runtime.
unsafe impl Runtime for HipRuntime {
    fn vendor(&self) -> VendorId {
        VendorId::ROCM
    }

    fn version(&self) -> Outcome<String> {
        let (major, minor) = self.release()?;
        Ok(format!("HIP {major}.{minor}"))
    }

    fn device_count(&self) -> Outcome<usize> {
        let mut count = 0;
        // SAFETY: the pointer is that of a live variable.
        match unsafe { (self.0.hipGetDeviceCount)(&mut count) } {
            ERROR_NO_DEVICE => Ok(0),
            status => self
                .check("hipGetDeviceCount", status)
                .map(|()| count.max(0) as usize),
        }
    }

    fn properties(&self, ordinal: usize) -> Outcome<Properties> {
        self.describe(ordinal)
    }

    fn open(&self, ordinal: usize) -> Outcome<Handle> {
        Ok(ordinal)
    }

    unsafe fn close(&self, _ordinal: usize, _context: Handle) -> Outcome<()> {
        Ok(())
    }

    unsafe fn bind(&self, context: Handle) -> Outcome<()> {
        call!(self.hipSetDevice(context as c_int))
    }

    fn memory(&self) -> Outcome<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self.hipMemGetInfo(&mut free, &mut total))?;
        Ok((free, total))
    }

    fn allocate(&self, bytes: usize) -> Outcome<Address> {
        let mut pointer = std::ptr::null_mut();
        call!(self.hipMalloc(&mut pointer, bytes))?;
        Ok(pointer.addr() as Address)
    }

    unsafe fn free(&self, address: Address) -> Outcome<()> {
        call!(self.hipFree(pointer(address)))
    }

    fn allocate_pinned(&self, bytes: usize) -> Outcome<*mut u8> {
        let mut pointer = std::ptr::null_mut();
        call!(self.hipHostMalloc(&mut pointer, bytes, HOST_PORTABLE))?;
        Ok(pointer.cast())
    }

    unsafe fn free_pinned(&self, pointer: *mut u8) -> Outcome<()> {
        call!(self.hipHostFree(pointer.cast()))
    }

    unsafe fn copy(&self, dst: Address, src: Address, bytes: usize, stream: Handle) -> Outcome<()> {
        call!(self.hipMemcpyAsync(
            pointer(dst),
            pointer(src),
            bytes,
            COPY_ON_DEVICE,
            opaque(stream)
        ))
    }

    unsafe fn copy_to_device(
        &self,
        dst: Address,
        src: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.hipMemcpyAsync(
            pointer(dst),
            src.cast(),
            bytes,
            COPY_TO_DEVICE,
            opaque(stream)
        ))
    }

    unsafe fn copy_to_host(
        &self,
        dst: *mut u8,
        src: Address,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.hipMemcpyAsync(
            dst.cast(),
            pointer(src),
            bytes,
            COPY_TO_HOST,
            opaque(stream)
        ))
    }

    fn create_stream(&self, urgent: bool) -> Outcome<Handle> {
        let (mut least, mut greatest, mut stream) = (0, 0, std::ptr::null_mut());
        call!(self.hipDeviceGetStreamPriorityRange(&mut least, &mut greatest))?;
        let priority = if urgent { greatest } else { least };
        call!(self.hipStreamCreateWithPriority(&mut stream, STREAM_NON_BLOCKING, priority))?;
        Ok(stream.addr())
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Outcome<()> {
        call!(self.hipStreamDestroy(opaque(stream)))
    }

    unsafe fn stream_is_idle(&self, stream: Handle) -> Outcome<bool> {
        // SAFETY: the caller vouches for the stream.
        self.query("hipStreamQuery", unsafe {
            (self.0.hipStreamQuery)(opaque(stream))
        })
    }

    unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Outcome<()> {
        call!(self.hipStreamWaitEvent(opaque(stream), opaque(event), 0))
    }

    fn create_event(&self) -> Outcome<Handle> {
        let mut event = std::ptr::null_mut();
        call!(self.hipEventCreateWithFlags(&mut event, EVENT_DEFAULT))?;
        Ok(event.addr())
    }

    unsafe fn destroy_event(&self, event: Handle) -> Outcome<()> {
        call!(self.hipEventDestroy(opaque(event)))
    }

    unsafe fn record(&self, event: Handle, stream: Handle) -> Outcome<()> {
        call!(self.hipEventRecord(opaque(event), opaque(stream)))
    }

    unsafe fn event_is_complete(&self, event: Handle) -> Outcome<bool> {
        // SAFETY: the caller vouches for the event.
        self.query("hipEventQuery", unsafe {
            (self.0.hipEventQuery)(opaque(event))
        })
    }

    unsafe fn elapsed_ms(&self, start: Handle, end: Handle) -> Outcome<f32> {
        let mut milliseconds = 0.0;
        call!(self.hipEventElapsedTime(&mut milliseconds, opaque(start), opaque(end)))?;
        Ok(milliseconds)
    }

    fn load_module(&self, image: &[u8]) -> Outcome<Handle> {
        let mut module = std::ptr::null_mut();
        call!(self.hipModuleLoadData(&mut module, image.as_ptr().cast()))?;
        Ok(module.addr())
    }

    unsafe fn unload_module(&self, module: Handle) -> Outcome<()> {
        call!(self.hipModuleUnload(opaque(module)))
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Outcome<Handle> {
        let mut function = std::ptr::null_mut();
        call!(self.hipModuleGetFunction(&mut function, opaque(module), name.as_ptr()))?;
        Ok(function.addr())
    }

    unsafe fn allow_shared(&self, _function: Handle, bytes: u32) -> Outcome<()> {
        // A block may always have all that its compute unit has, and never more.
        let reason = format!("{bytes} bytes of shared memory for a block");
        Err(Fault {
            call: "hipModuleLaunchKernel",
            code: 1,
            reason,
            out_of_memory: false,
        })
    }

    unsafe fn launch(&self, launch: &KernelCall<'_>, stream: Handle) -> Outcome<()> {
        let mut parameters: [*mut c_void; 1] = [launch.arguments.as_ptr().cast_mut().cast()];
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (function, stream) = (opaque(launch.function), opaque(stream));
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        call!(self.hipModuleLaunchKernel(
            function,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            launch.shared_bytes,
            stream,
            parameters,
            extra
        ))
    }

    unsafe fn begin_capture(&self, stream: Handle) -> Outcome<()> {
        call!(self.hipStreamBeginCapture(opaque(stream), CAPTURE_THREAD_LOCAL))
    }

    unsafe fn end_capture(&self, stream: Handle) -> Outcome<Handle> {
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        call!(self.hipStreamEndCapture(opaque(stream), &mut graph))?;
        let made = call!(self.hipGraphInstantiateWithFlags(&mut executable, graph, 0));
        let ended = call!(self.hipGraphDestroy(graph));
        made.and(ended)?;
        Ok(executable.addr())
    }

    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Outcome<()> {
        call!(self.hipGraphLaunch(opaque(graph), opaque(stream)))
    }

    unsafe fn destroy_graph(&self, graph: Handle) -> Outcome<()> {
        call!(self.hipGraphExecDestroy(opaque(graph)))
    }
}
