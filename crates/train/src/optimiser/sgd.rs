//! Stochastic gradient descent.

use super::{Optimiser, Rate, UpdateCall};
use parallel::Result;
use tensor::ops::optimiser;

/// Stochastic gradient descent, with momentum unless it is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub rate: Rate,
    /// Fraction of the velocity that is kept.
    pub momentum: f64,
    /// Decay of matrices.
    pub weight_decay: f64,
}

impl Sgd {
    /// With this learning rate, without momentum and weight decay.
    pub fn new(rate: impl Into<Rate>) -> Sgd {
        Sgd {
            rate: rate.into(),
            momentum: 0.0,
            weight_decay: 0.0,
        }
    }
}

impl Optimiser for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn num_states(&self) -> usize {
        usize::from(self.momentum > 0.0)
    }

    fn rate(&self, step: u64) -> f64 {
        self.rate.at(step)
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        let UpdateCall {
            device,
            pieces,
            factor,
            rate,
            ..
        } = *call;
        optimiser::sgd(device, pieces, factor, rate, self.momentum)
    }
}
