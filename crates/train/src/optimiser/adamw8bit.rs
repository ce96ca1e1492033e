//! AdamW with 8-bit moments.

use super::{AdamW, CodedRule, CodedUpdate, Optimiser, UpdateCall};
use parallel::Result;
use tensor::ops::coded;

/// [`AdamW`] whose moments are 8-bit codes, with a scale for each block of 256 elements of a row: a quarter of the state.
///
/// Weights follow the new moments before these become codes. Parameters of fewer than 4096 elements, or with rows of fewer than
/// 16, keep moments in the accumulator type.
///
/// # Source
/// Dettmers et al., arXiv:2110.02861: the codes and the limit of 4096 elements; its blocks have 2048. That a positive second
/// moment never becomes 0: Li et al., arXiv:2309.01507.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW8bit(
    /// The rule, and its rate.
    pub AdamW,
);

impl Optimiser for AdamW8bit {
    fn name(&self) -> &'static str {
        "adamw8bit"
    }

    fn num_states(&self) -> usize {
        self.0.num_states()
    }

    fn rate(&self, step: u64) -> f64 {
        self.0.rate(step)
    }

    fn weight_decay(&self) -> f64 {
        self.0.weight_decay
    }

    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        self.0.update(call)
    }

    fn codes(&self) -> Option<&dyn CodedRule> {
        Some(self)
    }
}

impl CodedRule for AdamW8bit {
    fn scales(&self, call: &UpdateCall<'_, CodedUpdate>) -> Result<()> {
        let settings = self.0.settings(call.rate, call.number);
        coded::coded_scales(call.device, call.pieces, call.factor, settings)
    }

    fn update(&self, call: &UpdateCall<'_, CodedUpdate>) -> Result<()> {
        let settings = self.0.settings(call.rate, call.number);
        coded::coded_adamw(call.device, call.pieces, call.factor, settings)
    }
}
