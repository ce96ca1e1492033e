//! The description of a launch, and of the device that it is made for.

use super::name::Name;
use bytemuck::{NoUninit, bytes_of};
use hal::{DType, DeviceId, Error, Result};

/// The properties of a device that the choice of launches depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTraits {
    /// The device, for messages.
    pub device: DeviceId,
    /// Threads in a warp: 32 on NVIDIA, 64 on AMD's gfx90a and gfx942.
    pub warp: u32,
    /// Multiprocessors (compute units).
    pub multiprocessors: u32,
    /// Shared memory that a block may use without a request for more.
    pub shared_bytes_per_block: u32,
    /// Whether its code has kernels of warpgroups (compute capability 9.0).
    pub warpgroups: bool,
}

/// One call of a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its name in the code object.
    pub function: Name,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The bytes of its one argument, a struct passed by value.
    pub arguments: Vec<u8>,
}

impl Launch {
    /// A launch of `fascicle_<name>` on `arguments`, without shared memory.
    pub(super) fn new(
        name: Name,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &impl NoUninit,
    ) -> Self {
        Launch {
            function: Name::of("fascicle_").and(&*name),
            grid,
            block,
            shared_bytes: 0,
            arguments: bytes_of(arguments).to_vec(),
        }
    }

    /// The same with `bytes` of shared memory, and what makes them whole vectors: compilers read single numbers as parts of
    /// one.
    pub(super) fn with_shared(self, bytes: u32) -> Self {
        Launch {
            shared_bytes: bytes.next_multiple_of(16),
            ..self
        }
    }
}

impl DeviceTraits {
    /// The name suffix of functions for elements of type `dtype`, which must be a float.
    pub(super) fn float(&self, operation: &str, dtype: DType) -> Result<&'static str> {
        if dtype.is_float() {
            Ok(dtype.name())
        } else {
            Err(self.unsupported(operation, dtype))
        }
    }

    /// The name suffix of functions for accumulators of type `dtype`: f32 or f64.
    pub(super) fn accumulator(&self, operation: &str, dtype: DType) -> Result<&'static str> {
        match dtype {
            DType::F32 | DType::F64 => Ok(dtype.name()),
            _ => Err(self.unsupported(operation, dtype)),
        }
    }

    /// The error for a program's own kernel that brings no code for this device.
    pub fn without_code(&self, kernel: &str) -> Error {
        Error::Unsupported {
            operation: kernel.into(),
            dtype: None,
            device: self.device,
        }
    }

    /// The error for an element type that no device function supports.
    pub(super) fn unsupported(&self, operation: &str, dtype: DType) -> Error {
        Error::Unsupported {
            operation: operation.into(),
            dtype: Some(dtype),
            device: self.device,
        }
    }
}
