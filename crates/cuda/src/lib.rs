//! The CUDA vendor: tables of the driver, cuBLAS and NCCL, opened at run time.
//!
//! A program gets it from the crate `fascicle` with the feature `cuda`, and names it only to pass its driver to a job. Begin with
//! [GPUs](https://github.com/fascicle-rs/fascicle/blob/main/docs/gpus.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! crates/gpu holds everything that CUDA and HIP share, including the signatures of functions. This crate adds what is
//! NVIDIA's own: the names and numbers of each library, the calls that HIP makes differently ([`mod@driver`]), and where to
//! look for the libraries.
//!
//! The tables are our own, not cudarc's: its loader panics if a library is missing, and searches only the system's
//! folders. A test compares every signature and value with the vendor's headers (`ci/declarations.sh`).

pub mod cublas;
pub mod cublaslt;
pub mod driver;
mod libraries;

pub use libraries::{open, tables};

use hal::{Driver, VendorId};

/// The driver of NVIDIA's devices.
pub fn driver() -> Driver {
    Driver {
        vendor: VendorId::CUDA,
        open: |options| open(gpu::Options::of(options)),
        probe: || gpu::probe("CUDA", tables()),
    }
}
