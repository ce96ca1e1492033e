//! The C interfaces of HIP, hipBLAS and hipBLASLt, as far as they are called: tables and values.

pub mod blas;
pub mod hip;
pub mod lt;
