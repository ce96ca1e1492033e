//! Device code objects for AMD, built by hipcc and embedded.
//!
//! Only `fascicle-rocm` uses it. To train on a GPU, begin with the crate `fascicle`, its feature `rocm`, and
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! The build looks for hipcc in `FASCICLE_HIPCC`, `ROCM_PATH` and the search path. Without hipcc the list is empty, and
//! a warning says where the build looked. `FASCICLE_HIP_ARCHS` names the architectures, by default those
//! of `gfx90a;gfx942` that hipcc knows.

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

#[cfg(test)]
mod tests {
    #[test]
    fn drivers_may_read_headers_in_place() {
        for object in super::objects() {
            assert_eq!(object.bytes.as_ptr().addr() % 64, 0, "{}", object.arch);
        }
    }
}
