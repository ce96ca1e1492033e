//! The C interfaces of the CUDA driver, cuBLAS and cuBLASLt, as far as they are called: tables and values.

pub mod blas;
pub mod driver;
pub mod lt;
