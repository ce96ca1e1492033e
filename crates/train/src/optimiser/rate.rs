//! A learning rate over the course of a run.

use serde::{Deserialize, Serialize};

/// How the learning rate changes after its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSchedule {
    /// Half a cosine down to the lowest rate.
    #[default]
    Cosine,
    /// A straight line down to the lowest rate.
    Linear,
    /// As it is.
    Constant,
}

/// A learning rate over the course of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rate after the warm-up.
    pub highest: f64,
    /// The rate at the last step.
    pub lowest: f64,
    /// Steps in which it grows from 0.
    pub warmup_steps: u64,
    /// Steps of the run.
    pub steps: u64,
    /// How it changes after the warm-up.
    pub schedule: RateSchedule,
}

impl Rate {
    /// The same rate at all times.
    pub const fn constant(rate: f64) -> Rate {
        Rate {
            highest: rate,
            lowest: rate,
            warmup_steps: 0,
            steps: 0,
            schedule: RateSchedule::Constant,
        }
    }

    /// From `highest` to `lowest` over `steps` by half a cosine.
    pub const fn cosine(highest: f64, lowest: f64, steps: u64) -> Rate {
        Rate {
            highest,
            lowest,
            warmup_steps: 0,
            steps,
            schedule: RateSchedule::Cosine,
        }
    }

    /// Adds this many steps in which the rate first grows from 0.
    pub const fn warm_up(self, warmup_steps: u64) -> Rate {
        Rate {
            warmup_steps,
            ..self
        }
    }

    /// The rate of a step, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return self.highest * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let left = (self.steps.saturating_sub(self.warmup_steps)).max(1) as f64;
        let progress = ((step - self.warmup_steps) as f64 / left).min(1.0);
        let share = match self.schedule {
            RateSchedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
            RateSchedule::Linear => 1.0 - progress,
            RateSchedule::Constant => return self.highest,
        };
        self.lowest + share * (self.highest - self.lowest)
    }
}

impl From<f64> for Rate {
    fn from(rate: f64) -> Rate {
        Rate::constant(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_warms_up_and_then_falls_to_its_lowest() {
        let rate = Rate::cosine(2e-3, 2e-4, 100).warm_up(10);
        assert_eq!(rate.at(9), 2e-3);
        assert!(rate.at(4) < rate.at(5) && rate.at(50) > rate.at(51));
        assert!((rate.at(100) - 2e-4).abs() < 1e-12);
        assert_eq!(Rate::constant(0.1).at(7), 0.1);
    }
}
