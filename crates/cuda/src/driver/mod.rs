//! The driver's table as the runtime that crates/gpu works with.

mod runtime;

use crate::sys::driver::*;
use gpu::table::{Fault, Handle, Outcome, Properties};
use std::{
    collections::HashMap,
    ffi::{CStr, c_int},
    sync::Mutex,
};

/// The driver, initialised.
#[derive(Debug)]
pub(crate) struct CudaDriver {
    table: Driver,
    // By ordinal, once they have been asked for.
    devices: Mutex<HashMap<usize, Device>>,
}

// One call through the table; a status other than success becomes a fault under the function's name.
macro_rules! call {
    ($self:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers for.
        let status = unsafe { ($self.table.$function)($($argument),*) };
        $self.check(stringify!($function), status)
    }};
}

use call;

fn opaque(handle: Handle) -> Opaque {
    std::ptr::without_provenance_mut(handle)
}

impl CudaDriver {
    /// Initialises the driver.
    ///
    /// # Errors
    /// [`Fault`] of `cuInit`: no device, or a driver that does not fit the kernel module.
    pub(crate) fn new(table: Driver) -> Outcome<CudaDriver> {
        let driver = CudaDriver {
            table,
            devices: Mutex::default(),
        };
        call!(driver.cuInit(0))?;
        Ok(driver)
    }

    fn check(&self, call: &'static str, status: Status) -> Outcome<()> {
        match status {
            SUCCESS => Ok(()),
            code => Err(Fault {
                call,
                code: code.into(),
                reason: self.reason(code),
                out_of_memory: code == ERROR_OUT_OF_MEMORY,
            }),
        }
    }

    fn reason(&self, status: Status) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the pointer is that of a live variable; the text is a constant of the library.
        let known = unsafe { (self.table.cuGetErrorString)(status, &mut text) } == SUCCESS
            && !text.is_null();
        if known {
            // SAFETY: as above; it ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
        } else {
            "unknown".into()
        }
    }

    fn query(&self, call: &'static str, status: Status) -> Outcome<bool> {
        if status == ERROR_NOT_READY {
            Ok(false)
        } else {
            self.check(call, status).map(|()| true)
        }
    }

    fn device(&self, ordinal: usize) -> Outcome<Device> {
        let mut devices = hal::lock(&self.devices);
        if let Some(&device) = devices.get(&ordinal) {
            return Ok(device);
        }
        let mut device = 0;
        call!(self.cuDeviceGet(&mut device, ordinal as c_int))?;
        devices.insert(ordinal, device);
        Ok(device)
    }

    fn attribute(&self, device: Device, attribute: c_int) -> Outcome<u32> {
        let mut value = 0;
        call!(self.cuDeviceGetAttribute(&mut value, attribute, device))?;
        Ok(value as u32)
    }

    fn name(&self, device: Device) -> Outcome<String> {
        let mut name = [0; 256];
        call!(self.cuDeviceGetName(name.as_mut_ptr(), 256, device))?;
        // SAFETY: the driver ends the name with a zero within the buffer.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }
            .to_string_lossy()
            .into())
    }

    /// What a device is.
    fn describe(&self, ordinal: usize) -> Outcome<Properties> {
        let device = self.device(ordinal)?;
        let major = self.attribute(device, ATTRIBUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(device, ATTRIBUTE_CAPABILITY_MINOR)?;
        Ok(Properties {
            name: self.name(device)?,
            architecture: format!("sm_{major}{minor}"),
            capability: (major, minor),
            warp: self.attribute(device, ATTRIBUTE_WARP_SIZE)?,
            multiprocessors: self.attribute(device, ATTRIBUTE_MULTIPROCESSORS)?,
            shared_bytes_per_block: self.attribute(device, ATTRIBUTE_SHARED_PER_BLOCK)?,
        })
    }
}
