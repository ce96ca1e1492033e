//! The ROCm vendor: tables of HIP, hipBLAS and RCCL, opened at run time.
//!
//! Everything that CUDA and HIP share is in crates/gpu; here is what is AMD's own: the C interfaces ([`sys`]) of HIP 5.7,
//! 6.x and 7.x, how they become crates/gpu's tables, and where the libraries are looked for. On MI250X a device is one
//! GCD, of which a card has two.

mod hip;
mod hipblas;
mod libraries;
pub mod sys;

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
