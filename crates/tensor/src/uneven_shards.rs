//! The tensors of one gather or reduce-scatter among several.

use crate::Tensor;
use hal::Counts;

/// What one of several gathers or reduce-scatters takes and gives.
#[derive(Clone, Copy, Debug)]
pub struct UnevenShards<'a> {
    /// What this rank gives.
    pub send: &'a Tensor,
    /// What it gets.
    pub recv: &'a Tensor,
    /// Elements of each rank's part of the larger one.
    pub counts: &'a Counts,
}
