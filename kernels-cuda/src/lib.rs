//! Device code objects for NVIDIA, built by nvcc and embedded.
//!
//! The build looks for nvcc in `FASCICLE_NVCC`, `CUDA_HOME` and the search path. Without nvcc the list is empty, and a
//! warning says where the build looked. `FASCICLE_CUDA_ARCHS` names the architectures, `80;90` by default.

#![forbid(unsafe_code)]

/// Every kernel, compiled for one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The architecture: `90` for sm_90.
    pub arch: &'static str,
    /// The file that the driver loads.
    pub bytes: &'static [u8],
}

/// The objects of this build.
pub fn objects() -> &'static [Object] {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"))
}
