//! Lion: the sign of an interpolated momentum.

use super::{Optimiser, Rate, UpdateCall};
use parallel::Result;
use tensor::ops::optimiser;

/// Lion: every weight moves by the rate, in the direction of the interpolated momentum's sign.
///
/// It keeps one state tensor where AdamW keeps two. Because each step has the size of the rate, its authors use a rate 3 to
/// 10 times below AdamW's, and a weight decay as many times above.
///
/// # Source
/// Chen et al., arXiv:2302.06675.
#[derive(Clone, Debug, PartialEq)]
pub struct Lion {
    /// Learning rate.
    pub rate: Rate,
    /// Share of the momentum in the direction.
    pub beta1: f64,
    /// Decay of the momentum.
    pub beta2: f64,
    /// Decay of matrices.
    pub weight_decay: f64,
}

impl Lion {
    /// With this learning rate, betas of 0.9 and 0.99, and no weight decay.
    pub fn new(rate: impl Into<Rate>) -> Lion {
        Lion {
            rate: rate.into(),
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
        }
    }
}

impl Optimiser for Lion {
    fn name(&self) -> &'static str {
        "lion"
    }

    fn num_states(&self) -> usize {
        1
    }

    fn rate(&self, step: u64) -> f64 {
        self.rate.at(step)
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        let settings = optimiser::Lion {
            rate: call.rate,
            beta1: self.beta1,
            beta2: self.beta2,
        };
        optimiser::lion(call.device, call.pieces, call.factor, settings)
    }
}
