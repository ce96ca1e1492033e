//! Device code objects for NVIDIA, built by nvcc and embedded.
//!
//! Only `fascicle-cuda` uses it. To train on a GPU, begin with the crate `fascicle`, its feature `cuda`, and
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! The build looks for nvcc in `FASCICLE_NVCC`, `CUDA_HOME` and the search path. Without nvcc the list is empty, and a
//! warning says where the build looked. `FASCICLE_CUDA_ARCHS` names the architectures, by default those of
//! `80;90a;compute_90` that nvcc knows.

#![forbid(unsafe_code)]

/// Every kernel, compiled for one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The architecture: `90a` for sm_90a, `compute_90` for PTX.
    pub arch: &'static str,
    /// The file that the driver loads.
    pub bytes: &'static [u8],
}

/// The objects of this build.
pub fn objects() -> &'static [Object] {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn drivers_may_read_headers_in_place() {
        for object in super::objects() {
            assert_eq!(object.bytes.as_ptr().addr() % 64, 0, "{}", object.arch);
        }
    }
}
