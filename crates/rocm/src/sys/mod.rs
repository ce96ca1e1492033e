//! The C interfaces of HIP and hipBLAS, as far as they are called: tables and values.

pub mod blas;
pub mod hip;
