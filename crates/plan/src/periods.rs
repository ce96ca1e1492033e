//! A step of many micro-batches from two of few. Between filling and draining its pipeline, a step repeats itself with a period of some
//! micro-batches, so what each further period adds is what it adds between two short steps.

use crate::simulate::{Stage, Step};
use train::Config;

/// The least number of micro-batches in a period: buckets and prefetches settle within a few.
const LEAST: usize = 16;

/// Periods of the shorter step, of the longer one beyond it, and from which number on a step is long.
const SHORT: usize = 2;
const FURTHER: usize = 1;
const LONG: usize = 6;

/// The micro-batches of two short steps, and how many times more the difference between them is added.
pub(crate) struct Periods {
    counts: [usize; 2],
    times: usize,
}

impl Periods {
    /// Those of a step that is long. Each has as many micro-batches beyond whole rounds of the pipeline as that step.
    pub(crate) fn of(config: &Config) -> Option<Periods> {
        let stages = config.parallel.grid.pipeline.max(1);
        let (period, all) = (
            stages * LEAST.div_ceil(stages),
            config.training.micro_batches,
        );
        let shorter = SHORT * period + all % period;
        let longer = shorter + FURTHER * period;
        (all >= LONG * period).then(|| Periods {
            counts: [shorter, longer],
            times: (all - longer) / (longer - shorter),
        })
    }

    /// The configurations of the two steps: micro-batches as before, but fewer.
    pub(crate) fn configs(&self, config: &Config) -> [Config; 2] {
        self.counts.map(|count| {
            let mut config = config.clone();
            let training = &mut config.training;
            training.batch = training.batch / training.micro_batches * count;
            training.micro_batches = count;
            config
        })
    }

    /// The step of all micro-batches.
    pub(crate) fn step(&self, [shorter, longer]: [Step; 2]) -> Step {
        let pairs = longer.stages.into_iter().zip(&shorter.stages);
        Step {
            depths: longer.depths,
            stages: pairs
                .map(|(stage, before)| stage.going_on(before, self.times))
                .collect(),
        }
    }
}

impl Stage {
    // What this is after more periods like that since `before`. Memory is that of a full pipeline.
    fn going_on(self, before: &Stage, times: usize) -> Stage {
        let later = |now: f64, then: f64| now + times as f64 * (now - then);
        Stage {
            breakdown: self.breakdown.going_on(&before.breakdown, times),
            counters: self.counters.going_on(&before.counters, times as u64),
            begin_s: later(self.begin_s, before.begin_s),
            end_s: later(self.end_s, before.end_s),
            ..self
        }
    }
}
