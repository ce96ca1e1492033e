//! The calls, one method each.

use super::{CudaDriver, call, opaque};
use crate::sys::driver::*;
use gpu::table::{Address as DeviceAddress, Handle, KernelCall, Outcome, Properties, Runtime};
use hal::VendorId;
use std::ffi::{CStr, c_int, c_void};

// SAFETY: each method makes the calls that its documentation names; handles come from the driver.
unsafe impl Runtime for CudaDriver {
    fn vendor(&self) -> VendorId {
        VendorId::CUDA
    }

    fn version(&self) -> Outcome<String> {
        let mut version = 0;
        call!(self.cuDriverGetVersion(&mut version))?;
        Ok(format!(
            "CUDA driver {}.{}",
            version / 1000,
            version % 1000 / 10
        ))
    }

    fn device_count(&self) -> Outcome<usize> {
        let mut count = 0;
        call!(self.cuDeviceGetCount(&mut count))?;
        Ok(count.max(0) as usize)
    }

    fn properties(&self, ordinal: usize) -> Outcome<Properties> {
        self.describe(ordinal)
    }

    fn open(&self, ordinal: usize) -> Outcome<Handle> {
        let mut context = std::ptr::null_mut();
        call!(self.cuDevicePrimaryCtxRetain(&mut context, self.device(ordinal)?))?;
        Ok(context.addr())
    }

    unsafe fn close(&self, ordinal: usize, _context: Handle) -> Outcome<()> {
        call!(self.cuDevicePrimaryCtxRelease_v2(self.device(ordinal)?))
    }

    unsafe fn bind(&self, context: Handle) -> Outcome<()> {
        call!(self.cuCtxSetCurrent(opaque(context)))
    }

    fn memory(&self) -> Outcome<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self.cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free, total))
    }

    fn allocate(&self, bytes: usize) -> Outcome<DeviceAddress> {
        let mut address = 0;
        call!(self.cuMemAlloc_v2(&mut address, bytes))?;
        Ok(address)
    }

    unsafe fn free(&self, address: DeviceAddress) -> Outcome<()> {
        call!(self.cuMemFree_v2(address))
    }

    fn allocate_pinned(&self, bytes: usize) -> Outcome<*mut u8> {
        let mut pointer = std::ptr::null_mut();
        call!(self.cuMemHostAlloc(&mut pointer, bytes, HOST_PORTABLE))?;
        Ok(pointer.cast())
    }

    unsafe fn free_pinned(&self, pointer: *mut u8) -> Outcome<()> {
        call!(self.cuMemFreeHost(pointer.cast()))
    }

    unsafe fn copy(
        &self,
        dst: DeviceAddress,
        src: DeviceAddress,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.cuMemcpyAsync(dst, src, bytes, opaque(stream)))
    }

    unsafe fn copy_to_device(
        &self,
        dst: DeviceAddress,
        src: *const u8,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.cuMemcpyHtoDAsync_v2(dst, src.cast(), bytes, opaque(stream)))
    }

    unsafe fn copy_to_host(
        &self,
        dst: *mut u8,
        src: DeviceAddress,
        bytes: usize,
        stream: Handle,
    ) -> Outcome<()> {
        call!(self.cuMemcpyDtoHAsync_v2(dst.cast(), src, bytes, opaque(stream)))
    }

    fn create_stream(&self, urgent: bool) -> Outcome<Handle> {
        let (mut least, mut greatest, mut stream) = (0, 0, std::ptr::null_mut());
        call!(self.cuCtxGetStreamPriorityRange(&mut least, &mut greatest))?;
        let priority = if urgent { greatest } else { least };
        call!(self.cuStreamCreateWithPriority(&mut stream, STREAM_NON_BLOCKING, priority))?;
        Ok(stream.addr())
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Outcome<()> {
        call!(self.cuStreamDestroy_v2(opaque(stream)))
    }

    unsafe fn stream_is_idle(&self, stream: Handle) -> Outcome<bool> {
        // SAFETY: the caller vouches for the stream.
        self.query("cuStreamQuery", unsafe {
            (self.table.cuStreamQuery)(opaque(stream))
        })
    }

    unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Outcome<()> {
        call!(self.cuStreamWaitEvent(opaque(stream), opaque(event), 0))
    }

    fn create_event(&self) -> Outcome<Handle> {
        let mut event = std::ptr::null_mut();
        call!(self.cuEventCreate(&mut event, EVENT_DEFAULT))?;
        Ok(event.addr())
    }

    unsafe fn destroy_event(&self, event: Handle) -> Outcome<()> {
        call!(self.cuEventDestroy_v2(opaque(event)))
    }

    unsafe fn record(&self, event: Handle, stream: Handle) -> Outcome<()> {
        call!(self.cuEventRecord(opaque(event), opaque(stream)))
    }

    unsafe fn event_is_complete(&self, event: Handle) -> Outcome<bool> {
        // SAFETY: the caller vouches for the event.
        self.query("cuEventQuery", unsafe {
            (self.table.cuEventQuery)(opaque(event))
        })
    }

    unsafe fn elapsed_ms(&self, start: Handle, end: Handle) -> Outcome<f32> {
        let mut milliseconds = 0.0;
        call!(self.cuEventElapsedTime(&mut milliseconds, opaque(start), opaque(end)))?;
        Ok(milliseconds)
    }

    fn load_module(&self, image: &[u8]) -> Outcome<Handle> {
        let mut module = std::ptr::null_mut();
        call!(self.cuModuleLoadData(&mut module, image.as_ptr().cast()))?;
        Ok(module.addr())
    }

    unsafe fn unload_module(&self, module: Handle) -> Outcome<()> {
        call!(self.cuModuleUnload(opaque(module)))
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Outcome<Handle> {
        let mut function = std::ptr::null_mut();
        call!(self.cuModuleGetFunction(&mut function, opaque(module), name.as_ptr()))?;
        Ok(function.addr())
    }

    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Outcome<()> {
        call!(self.cuFuncSetAttribute(opaque(function), FUNCTION_MAX_SHARED, bytes as c_int))
    }

    unsafe fn launch(&self, launch: &KernelCall<'_>, stream: Handle) -> Outcome<()> {
        let mut parameters: [*mut c_void; 1] = [launch.arguments.as_ptr().cast_mut().cast()];
        let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
        let (function, stream) = (opaque(launch.function), opaque(stream));
        let (parameters, extra) = (parameters.as_mut_ptr(), std::ptr::null_mut());
        call!(self.cuLaunchKernel(
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
        call!(self.cuStreamBeginCapture_v2(opaque(stream), CAPTURE_THREAD_LOCAL))
    }

    unsafe fn end_capture(&self, stream: Handle) -> Outcome<Handle> {
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        call!(self.cuStreamEndCapture(opaque(stream), &mut graph))?;
        let made = call!(self.cuGraphInstantiateWithFlags(&mut executable, graph, 0));
        let ended = call!(self.cuGraphDestroy(graph));
        made.and(ended)?;
        Ok(executable.addr())
    }

    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Outcome<()> {
        call!(self.cuGraphLaunch(opaque(graph), opaque(stream)))
    }

    unsafe fn destroy_graph(&self, graph: Handle) -> Outcome<()> {
        call!(self.cuGraphExecDestroy(opaque(graph)))
    }
}
