//! The vendors' C interfaces over host memory, for tests.
//!
//! [`build`] compiles shared libraries with the names and symbols of the CUDA driver, cuBLAS, NCCL, HIP, hipBLAS and
//! RCCL. A vendor's production loader opens them, so everything above the C interface runs on a machine without a
//! device: allocation, streams (each a thread), events, launches of the real kernels compiled for the host, products,
//! collectives. They prove sequences and numbers, neither speed nor that a declaration fits the vendor's headers.
//!
//! Nothing here is linked into a program: other crates depend on this one for tests only. What the libraries take from
//! the environment, and what they export for tests besides the vendors' symbols, is in `crates/emulator/README.md`.

#![forbid(unsafe_code)]

mod cache;
mod compiler;
mod generation;
mod libraries;
mod simt;
mod skip;

pub use generation::{Cuda, Generation, Hip};
pub use skip::{for_test, is_required};

use std::path::PathBuf;

/// Builds the libraries of both vendors and the kernels for the host, or finds them built.
///
/// Gives the folder that holds them. Which generation of each vendor it is follows from the environment
/// ([`Generation::from_environment`]).
///
/// # Errors
/// Why there are none, in words: no C++ compiler, or what the compiler said.
pub fn build() -> Result<PathBuf, String> {
    build_generation(Generation::from_environment()?)
}

/// Builds the libraries of one generation and the kernels for the host, or finds them built.
///
/// # Errors
/// As [`build`].
pub fn build_generation(generation: Generation) -> Result<PathBuf, String> {
    let folder = build_libraries(generation)?;
    simt::build(&folder)?;
    Ok(folder)
}

/// Builds the libraries without the kernels: a launch finds no function unless `FASCICLE_EMULATOR_SIMT` names some.
///
/// # Errors
/// As [`build`].
pub fn build_libraries(generation: Generation) -> Result<PathBuf, String> {
    libraries::build(generation)
}
