//! The threads of kernels, which no model has.

/// Stands for the pool of a device.
#[derive(Debug)]
pub(crate) struct Pool;
