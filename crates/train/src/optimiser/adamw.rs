//! Adam with decoupled weight decay.

use super::{Optimiser, Rate, UpdateCall};
use parallel::Result;
use tensor::ops::optimiser;

/// Adam with decoupled weight decay.
///
/// # Source
/// Loshchilov and Hutter, arXiv:1711.05101.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub rate: Rate,
    /// Decay of the first moments.
    pub beta1: f64,
    /// Decay of the second moments.
    pub beta2: f64,
    /// Addend to the root of the second moments.
    pub epsilon: f64,
    /// Decay of matrices.
    pub weight_decay: f64,
}

impl AdamW {
    /// With this learning rate, betas of 0.9 and 0.999, and no weight decay.
    pub fn new(rate: impl Into<Rate>) -> AdamW {
        AdamW {
            rate: rate.into(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }

    /// The numbers of an update.
    pub(super) fn settings(&self, rate: f64, number: u64) -> optimiser::AdamW {
        optimiser::AdamW {
            rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            step: number,
        }
    }
}

impl Optimiser for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn num_states(&self) -> usize {
        2
    }

    fn rate(&self, step: u64) -> f64 {
        self.rate.at(step)
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        let settings = self.settings(call.rate, call.number);
        optimiser::adamw(call.device, call.pieces, call.factor, settings)
    }
}
