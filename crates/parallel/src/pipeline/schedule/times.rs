//! How long the passes of a micro-batch take.

use super::Action;

/// Durations of the work of one micro-batch in one chunk, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// A forward.
    pub forward_us: f64,
    /// The part of a backward that computes gradients of inputs.
    pub inputs_us: f64,
    /// The part of a backward that computes gradients of weights.
    pub weights_us: f64,
}

impl Times {
    /// One for each.
    pub const UNIT: Times = Times {
        forward_us: 1.0,
        inputs_us: 1.0,
        weights_us: 1.0,
    };

    /// A forward and a backward, of which inputs and weights take half each, as in a model of matmuls alone.
    pub const fn halves(forward_us: f64, backward_us: f64) -> Times {
        Times {
            forward_us,
            inputs_us: backward_us / 2.0,
            weights_us: backward_us / 2.0,
        }
    }

    /// Each of them `factor` times.
    pub(super) fn times(&self, factor: f64) -> Times {
        Times {
            forward_us: factor * self.forward_us,
            inputs_us: factor * self.inputs_us,
            weights_us: factor * self.weights_us,
        }
    }

    /// All of them.
    pub(super) fn total_us(&self) -> f64 {
        self.forward_us + self.inputs_us + self.weights_us
    }

    /// Whether they are finite and none is below 0, and any is above it.
    pub(super) fn are_sound(&self) -> bool {
        let all = [self.forward_us, self.inputs_us, self.weights_us];
        let sound = |time: &f64| time.is_finite() && *time >= 0.0;
        all.iter().all(sound) && self.total_us() > 0.0
    }

    /// Duration of an action; messages take no time.
    pub(super) fn of(&self, action: Action, splits_backward: bool) -> f64 {
        match action {
            Action::Forward { .. } => self.forward_us,
            Action::Backward { .. } if splits_backward => self.inputs_us,
            Action::Backward { .. } => self.inputs_us + self.weights_us,
            Action::Weights { .. } => self.weights_us,
            _ => 0.0,
        }
    }
}
