//! Tensors shared with other libraries of the process, without a copy: DLPack, as NumPy, PyTorch, JAX and CuPy read and write it.
//!
//! Begin with [Trainers of your own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-trainers.md#dlpack)
//! in the manual of [Fascicle](https://github.com/fascicle-rs/fascicle), whose crate `fascicle` has these tensors as `fascicle::tensor`.
//!
//! [`export()`] gives a tensor away, and [`import()`] takes one in. Both speak of [`DLManagedTensorVersioned`], the exchange of DLPack 1.0
//! and later. Elements are contiguous, in row-major order.
//!
//! # Source
//! `include/dlpack/dlpack.h` of DLPack 1.1, and the Python specification of its documentation for who calls a deleter and when.

mod abi;
mod export;
mod import;
mod kinds;

pub use abi::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_READ_ONLY,
};
pub use export::export;
pub use import::import;
