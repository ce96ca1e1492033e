//! Driver calls: contexts, memory, streams, events, modules, graphs.
//!
//! [`VendorCalls`] are those in which CUDA and HIP differ, and what a vendor crate implements; [`Runtime`] adds the
//! others to it, through [`RuntimeFunctions`].

mod calls;
mod functions;
mod vendor;

pub use calls::Runtime;
pub use functions::*;
pub use vendor::{RuntimeTable, RuntimeValues, VendorCalls};

use super::Opaque;
use std::ffi::c_void;

/// A vendor's own handle: a pointer, or a number that stands for one.
pub type Handle = usize;

/// An address on the device.
pub type Address = u64;

/// The properties of a device that launches and messages depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The marketing name.
    pub name: String,
    /// The architecture as code objects name it: `sm_90`, `gfx90a`.
    pub architecture: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Threads in a warp.
    pub warp: u32,
    /// Multiprocessors or compute units.
    pub multiprocessors: u32,
    /// Shared memory that a block may use without a request for more.
    pub shared_bytes_per_block: u32,
}

/// A handle as C takes it.
pub fn opaque(handle: Handle) -> Opaque {
    std::ptr::without_provenance_mut(handle)
}

/// An address as C takes it where it wants a pointer.
pub fn pointer(address: Address) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}

/// A launch, resolved to a function of this device.
#[derive(Clone, Copy, Debug)]
pub struct KernelCall<'a> {
    /// From [`Runtime::function`].
    pub function: Handle,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The bytes of the one argument.
    pub arguments: &'a [u8],
}
