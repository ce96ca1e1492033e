//! Device code objects for AMD, built by hipcc and embedded.
//!
//! The build looks for hipcc in `FASCICLE_HIPCC`, `ROCM_PATH` and the search path. Without hipcc the list is empty, and
//! a warning says where the build looked. `FASCICLE_HIP_ARCHS` names the architectures, `gfx90a` by default.

#![forbid(unsafe_code)]

/// Every kernel, compiled for one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The architecture, such as `gfx90a`.
    pub arch: &'static str,
    /// The file that the driver loads.
    pub bytes: &'static [u8],
}

/// The objects of this build.
pub fn objects() -> &'static [Object] {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"))
}
