//! Settings that are valid, and probably a mistake.
//!
//! They get a warning, and the run goes on: a file may set one of two rates and leave the other at its default, and a short trial
//! may end during its warm-up.

use super::Config;
use crate::optimiser::RateSchedule;

impl Config {
    /// What its author may not have meant, a sentence each.
    pub fn doubts(&self) -> Vec<String> {
        let training = &self.training;
        let (highest, lowest) = (training.learning_rate, training.lowest_rate);
        let rises = training.rate_schedule != RateSchedule::Constant && lowest > highest;
        let warms_up = training.warmup_steps > 0 && training.warmup_steps >= training.steps;
        let trains_nothing =
            self.tuning.adapter_rank == 0 && self.tuning.frozen.iter().any(|name| name == "*");
        let doubts = [
            rises.then(|| {
                format!(
                    "training.lowest_rate is {lowest:e}, above training.learning_rate, {highest:e}: the rate never falls"
                )
            }),
            warms_up.then(|| {
                format!(
                    "training.warmup_steps is {}, training.steps {}: the rate never reaches training.learning_rate",
                    training.warmup_steps, training.steps
                )
            }),
            trains_nothing.then(|| "tuning.frozen is `*`: nothing is trained".to_owned()),
        ];
        doubts.into_iter().flatten().collect()
    }
}
