//! The tensors of one gather or reduce-scatter among several.

use crate::Tensor;
use hal::Counts;

/// The arguments of one of several gathers or reduce-scatters.
#[derive(Clone, Copy, Debug)]
pub struct UnevenShards<'a> {
    /// This rank's input.
    pub send: &'a Tensor,
    /// This rank's result.
    pub recv: &'a Tensor,
    /// Number of elements of each rank's part of the larger tensor.
    pub counts: &'a Counts,
}
