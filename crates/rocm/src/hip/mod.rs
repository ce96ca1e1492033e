//! HIP's table as the runtime that crates/gpu works with.
//!
//! HIP has no contexts worth holding: a thread is bound to a device by its number, which here is the handle.

mod runtime;

use crate::sys::hip::*;
use gpu::table::{Address, Fault, Handle, Outcome, Properties};
use std::ffi::{CStr, c_int, c_void};

/// The runtime, initialised.
#[derive(Debug)]
pub(crate) struct HipRuntime(Hip);

// One call through the table; a status other than success becomes a fault under the function's name.
macro_rules! call {
    ($self:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments fit the function's documentation; what must be live, the caller of this method answers for.
        let status = unsafe { ($self.0.$function)($($argument),*) };
        $self.check(stringify!($function), status)
    }};
}

use call;

fn opaque(handle: Handle) -> Opaque {
    std::ptr::without_provenance_mut(handle)
}

fn pointer(address: Address) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

// More than the structure has in any version; it only grows.
const PROPERTIES_BYTES: usize = 16 << 10;

impl HipRuntime {
    /// Initialises the runtime.
    ///
    /// # Errors
    /// [`Fault`] of `hipInit`: no device, or a kernel driver that does not fit.
    pub(crate) fn new(table: Hip) -> Outcome<HipRuntime> {
        let runtime = HipRuntime(table);
        call!(runtime.hipInit(0))?;
        Ok(runtime)
    }

    /// Major and minor version.
    ///
    /// # Errors
    /// [`Fault`] of `hipRuntimeGetVersion`.
    pub(crate) fn release(&self) -> Outcome<(c_int, c_int)> {
        let mut version = 0;
        call!(self.hipRuntimeGetVersion(&mut version))?;
        Ok((version / 10_000_000, version % 10_000_000 / 100_000))
    }

    fn check(&self, call: &'static str, status: Status) -> Outcome<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the function gives a constant text for any status.
        let text = unsafe { (self.0.hipGetErrorString)(status) };
        // SAFETY: as above; it ends with a zero.
        let reason =
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into());
        let reason = reason.unwrap_or_else(|| "unknown".to_string());
        Err(Fault {
            call,
            code: status.into(),
            reason,
            out_of_memory: status == ERROR_OUT_OF_MEMORY,
        })
    }

    fn query(&self, call: &'static str, status: Status) -> Outcome<bool> {
        if status == ERROR_NOT_READY {
            Ok(false)
        } else {
            self.check(call, status).map(|()| true)
        }
    }

    fn attribute(&self, ordinal: usize, attribute: c_int) -> Outcome<u32> {
        let mut value = 0;
        call!(self.hipDeviceGetAttribute(&mut value, attribute, ordinal as c_int))?;
        Ok(value as u32)
    }

    fn name(&self, ordinal: usize) -> Outcome<String> {
        let mut name = [0; 256];
        call!(self.hipDeviceGetName(name.as_mut_ptr(), 256, ordinal as c_int))?;
        // SAFETY: the runtime ends the name with a zero within the buffer.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }
            .to_string_lossy()
            .into())
    }

    // No attribute tells it. The properties do, at a place that differs between versions; but in all of them it is the
    // one text that begins with `gfx`.
    fn architecture(&self, ordinal: usize) -> Outcome<String> {
        let call = "hipGetDeviceProperties";
        let function = self
            .0
            .hipGetDevicePropertiesR0600
            .or(self.0.hipGetDeviceProperties);
        let unknown = |reason: &str| Fault {
            call,
            code: -1,
            reason: reason.into(),
            out_of_memory: false,
        };
        let function = function.ok_or_else(|| unknown("the library has no such function"))?;
        let mut properties = vec![0u64; PROPERTIES_BYTES / size_of::<u64>()];
        // SAFETY: the buffer is larger than the structure of any version, and aligned for it.
        self.check(call, unsafe {
            function(properties.as_mut_ptr().cast(), ordinal as c_int)
        })?;
        let bytes: Vec<u8> = properties
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        architecture_in(&bytes)
            .ok_or_else(|| unknown("the device's architecture is not among them"))
    }

    /// What a device is.
    fn describe(&self, ordinal: usize) -> Outcome<Properties> {
        let major = self.attribute(ordinal, ATTRIBUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(ordinal, ATTRIBUTE_CAPABILITY_MINOR)?;
        Ok(Properties {
            name: self.name(ordinal)?,
            architecture: self.architecture(ordinal)?,
            capability: (major, minor),
            warp: self.attribute(ordinal, ATTRIBUTE_WARP_SIZE)?,
            multiprocessors: self.attribute(ordinal, ATTRIBUTE_MULTIPROCESSORS)?,
            shared_bytes_per_block: self.attribute(ordinal, ATTRIBUTE_SHARED_PER_BLOCK)?,
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
