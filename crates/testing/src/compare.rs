//! Differences between two outcomes.

use crate::Outcome;
use std::{collections::BTreeMap, fmt};

/// The largest relative differences between two outcomes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Of the losses.
    pub loss: f64,
    /// Of the norms of gradients.
    pub norm: f64,
    /// Of the gradients of the first step: the largest element of each tensor, with the tensor's name.
    pub first_gradient: (f64, String),
    /// Of the gradients of the last step, likewise.
    pub gradient: (f64, String),
    /// Of the weights, likewise.
    pub weight: (f64, String),
}

impl Difference {
    /// The largest difference of losses, norms and gradients, over all steps.
    pub fn largest(&self) -> f64 {
        self.loss
            .max(self.norm)
            .max(self.first_gradient.0)
            .max(self.gradient.0)
    }

    /// The largest difference of losses over all steps, and of gradients at equal weights.
    pub fn largest_at_equal_weights(&self) -> f64 {
        self.loss.max(self.first_gradient.0)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            loss,
            norm,
            first_gradient: first,
            gradient,
            weight,
        } = self;
        write!(
            f,
            "loss {loss:.1e}, norm {norm:.1e}, first gradient {:.1e} ({}), ",
            first.0, first.1
        )?;
        write!(f, "last gradient {:.1e} ({}), ", gradient.0, gradient.1)?;
        write!(f, "weight {:.1e} ({})", weight.0, weight.1)
    }
}

/// The differences of `found` from `expected`, relative to `expected`.
pub fn difference(found: &Outcome, expected: &Outcome) -> Difference {
    Difference {
        loss: series(&found.losses, &expected.losses),
        norm: series(&found.norms, &expected.norms),
        first_gradient: tensors(&found.first_gradients, &expected.first_gradients),
        gradient: tensors(&found.gradients, &expected.gradients),
        weight: tensors(&found.weights, &expected.weights),
    }
}

fn series(found: &[f64], expected: &[f64]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let relative = |(a, b): (&f64, &f64)| worst((a - b).abs() / b.abs());
    found.iter().zip(expected).map(relative).fold(0.0, f64::max)
}

// A key bias has no true gradient, because softmax does not depend on it; only rounding remains there. It is
// compared with 1e-3 of the largest gradient of all, like every tensor that is practically zero.
fn tensors(
    found: &BTreeMap<String, Vec<f64>>,
    expected: &BTreeMap<String, Vec<f64>>,
) -> (f64, String) {
    let size = |tensor: &Vec<f64>| {
        tensor
            .iter()
            .fold(0.0f64, |largest, x| largest.max(x.abs()))
    };
    let floor = 1e-3 * expected.values().map(size).fold(0.0, f64::max);
    let mut largest = (0.0, String::new());
    for (name, tensor) in found {
        let relative = match expected.get(name) {
            Some(other) if other.len() == tensor.len() => {
                let apart = tensor
                    .iter()
                    .zip(other)
                    .map(|(a, b)| worst((a - b).abs()))
                    .fold(0.0, f64::max);
                apart / size(other).max(floor)
            }
            _ => f64::INFINITY,
        };
        if relative > largest.0 {
            largest = (relative, name.clone());
        }
    }
    largest
}

fn worst(difference: f64) -> f64 {
    if difference.is_nan() {
        f64::INFINITY
    } else {
        difference
    }
}
