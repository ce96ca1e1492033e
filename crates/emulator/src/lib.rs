//! The vendors' C interfaces over host memory, for tests.
//!
//! [`build`] compiles shared libraries with the names and symbols of the CUDA driver, cuBLAS, NCCL, HIP, hipBLAS and
//! RCCL. The vendor crates' loaders open them, so everything above the C interface runs on a machine without a device:
//! allocation, streams (each a thread), events, GEMMs, collectives, and the real kernels compiled for the host. Tests
//! on them check the order of calls and the numbers. They check neither speed nor declarations against the vendors'
//! headers.
//!
//! No program links this crate: other crates depend on it for tests only. `crates/emulator/README.md` lists the
//! environment variables that the libraries read, and the functions that they export for tests.

#![forbid(unsafe_code)]

mod cache;
mod compiler;
mod generation;
mod libraries;
mod operands;
mod simt;
mod skip;

pub use generation::{Cuda, Generation, Hip};
pub use skip::{for_test, is_required};

use std::path::PathBuf;

/// The name, in the folder that [`build`] returns, of the image that programs load: what `FASCICLE_CUDA_OBJECT` and
/// `FASCICLE_ROCM_OBJECT` name on the emulator. With CUDA 13 its kernels multiply by warpgroups, as code for sm_90a does; with
/// CUDA 12 by warps.
pub const IMAGE: &str = "kernels.image";

/// Builds the libraries of both vendors and the kernels for the host, or finds them built.
///
/// Returns the folder that holds them. The environment selects the generation of each vendor
/// ([`Generation::from_environment`]).
///
/// # Errors
/// A sentence: a value that [`Generation::from_environment`] refuses, no C++ compiler, a file that cannot be read or
/// written, or the compiler's output.
pub fn build() -> Result<PathBuf, String> {
    build_generation(Generation::from_environment()?)
}

/// Builds the libraries of one generation and the kernels for the host, or finds them built.
///
/// # Errors
/// As [`build`], except that it does not read the environment.
pub fn build_generation(generation: Generation) -> Result<PathBuf, String> {
    let folder = build_libraries(generation)?;
    simt::build(&folder, generation.cuda)?;
    Ok(folder)
}

/// Builds the libraries without the kernels: a launch finds no function unless `FASCICLE_EMULATOR_SIMT` names some.
///
/// # Errors
/// As [`build_generation`].
pub fn build_libraries(generation: Generation) -> Result<PathBuf, String> {
    libraries::build(generation)
}
