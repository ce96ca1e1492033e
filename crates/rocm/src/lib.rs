//! The ROCm vendor: tables of HIP, hipBLAS and RCCL, opened at run time.
//!
//! Everything that CUDA and HIP share is in crates/gpu, the functions' signatures too. Here is what is AMD's own: the names
//! and numbers of each library in HIP 5.7, 6.x and 7.x, the calls that CUDA makes otherwise ([`hip`]), and where the
//! libraries are looked for. On MI250X a device is one GCD, of which a card has two.

pub mod hip;
pub mod hipblas;
pub mod hipblaslt;
mod libraries;

pub use libraries::{open, tables};

use hal::{Driver, VendorId};

/// AMD's devices, if the machine has them.
pub fn driver() -> Driver {
    Driver {
        vendor: VendorId::ROCM,
        open: |options| open(gpu::Options::of(options)),
        probe: || gpu::probe("ROCm", tables()),
    }
}
