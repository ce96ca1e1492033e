//! The CUDA vendor: tables of the driver, cuBLAS and NCCL, opened at run time.
//!
//! Everything that CUDA and HIP share is in crates/gpu, the functions' signatures too. Here is what is NVIDIA's own: the
//! names and numbers of each library, the calls that HIP makes otherwise ([`driver`]), and where the libraries are looked
//! for.
//!
//! The tables are our own and not cudarc's, whose loader panics where a library is missing and knows no folders beside
//! the system's; a test compares every signature and value with the vendor's headers (`ci/declarations.sh`).

pub mod cublas;
pub mod cublaslt;
pub mod driver;
mod libraries;

pub use libraries::{open, tables};

use hal::{Driver, VendorId};

/// NVIDIA's devices, if the machine has them.
pub fn driver() -> Driver {
    Driver {
        vendor: VendorId::CUDA,
        open: |options| open(gpu::Options::of(options)),
        probe: || gpu::probe("CUDA", tables()),
    }
}
