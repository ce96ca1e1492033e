//! The ROCm vendor: tables of HIP, hipBLAS and RCCL, opened at run time.
//!
//! A program gets it from the crate `fascicle` with the feature `rocm`, and names it only to pass its driver to a job. Begin with
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! crates/gpu holds everything that CUDA and HIP share, including the signatures of functions. This crate adds what is
//! AMD's own: the names and numbers of each library in HIP 5.7, 6.x and 7.x, the calls that CUDA makes differently
//! ([`hip`]), and where to look for the libraries. On MI250X a device is one GCD; each card has two.

pub mod hip;
pub mod hipblas;
pub mod hipblaslt;
mod libraries;

pub use libraries::{open, tables};

use hal::{Driver, VendorId};

/// The driver of AMD's devices.
pub fn driver() -> Driver {
    Driver {
        vendor: VendorId::ROCM,
        open: |options| open(gpu::Options::of(options)),
        probe: || gpu::probe("ROCm", tables()),
    }
}
