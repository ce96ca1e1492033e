//! Adafactor: second moments as means of rows and columns.

use super::{FactoredRule, Factoring, Means, Optimiser, Rate, UpdateCall};
use parallel::Result;
use tensor::ops::optimiser;

/// Added to squares, so that no moment is 0.
const EPSILON: f64 = 1e-30;

/// Adafactor: gradients over the roots of second moments, of which it keeps the means of each row and each column.
///
/// A vector is a row, so it has a moment for each element. There is no first moment, and the rate is given: the steps are not
/// relative to the size of the weights. Directions whose root mean square over a parameter exceeds `clip` are scaled to it. All
/// dims but the last of a parameter are rows.
///
/// # Source
/// Shazeer and Stern, arXiv:1804.04235: algorithms 4 and 5, with the decay of section 7.2.
#[derive(Clone, Debug, PartialEq)]
pub struct Adafactor {
    /// Learning rate.
    pub rate: Rate,
    /// Update t keeps a share of 1 - t^-decay of the old means.
    pub decay: f64,
    /// The largest root mean square of a parameter's directions.
    pub clip: f64,
    /// Decoupled decay of matrices.
    pub weight_decay: f64,
}

impl Adafactor {
    /// With this learning rate, a decay of 0.8, directions clipped to 1, and no weight decay.
    pub fn new(rate: impl Into<Rate>) -> Adafactor {
        Adafactor {
            rate: rate.into(),
            decay: 0.8,
            clip: 1.0,
            weight_decay: 0.0,
        }
    }
}

impl Optimiser for Adafactor {
    fn name(&self) -> &'static str {
        "adafactor"
    }

    fn num_states(&self) -> usize {
        0
    }

    fn rate(&self, step: u64) -> f64 {
        self.rate.at(step)
    }

    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    // What has no means of its own follows its gradients, as directions do.
    fn update(&self, call: &UpdateCall<'_>) -> Result<()> {
        self.apply(call)
    }

    fn factors(&self) -> Option<&dyn FactoredRule> {
        Some(self)
    }
}

impl FactoredRule for Adafactor {
    fn factoring(&self, number: u64) -> Factoring {
        Factoring {
            means: Means {
                keep: 1.0 - (number as f64).powf(-self.decay),
                epsilon: EPSILON,
            },
            most: self.clip,
        }
    }

    fn apply(&self, call: &UpdateCall<'_>) -> Result<()> {
        // Without momentum, decay added to the direction is decoupled: the moments do not see it.
        optimiser::sgd(call.device, call.pieces, call.factor, call.rate, 0.0)
    }
}
