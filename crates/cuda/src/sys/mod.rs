//! The C interfaces of the CUDA driver and cuBLAS, as far as they are called: tables and values.

pub mod blas;
pub mod driver;
