//! How the micro-batches of a step pass through the stages.

use super::schedule::{self, Schedule, ScheduleKind, Stages};
use tensor::{Error, Result};

/// How the micro-batches of a step pass through the stages.
#[derive(Clone, Debug)]
pub enum SchedulePlan {
    /// By a list of actions per stage.
    Listed(Schedule),
    /// By the messages that arrive, with a limit on the micro-batches in flight on a stage.
    Driven {
        /// Micro-batches per step.
        num_micro_batches: usize,
        /// The most that may be between forward and backward on a stage.
        in_flight: usize,
    },
}

impl SchedulePlan {
    /// The plan of that kind for `num_stages` stages, checked.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the kind cannot be built for these numbers.
    pub fn new(
        kind: ScheduleKind,
        num_stages: usize,
        num_micro_batches: usize,
    ) -> Result<SchedulePlan> {
        let refuse = |error: schedule::ScheduleError| {
            let found =
                format!("{kind} for {num_stages} stages and {num_micro_batches} micro-batches");
            Error::invalid("schedule", found, format!("one that can run: {error}"))
        };
        if let ScheduleKind::MessageDriven { in_flight } = kind {
            schedule::MessageDriven::new(0, num_stages, num_micro_batches, in_flight.unwrap_or(1))
                .map_err(refuse)?;
            return Ok(SchedulePlan::Driven {
                num_micro_batches,
                in_flight: in_flight.unwrap_or(num_stages),
            });
        }
        let listed = schedule::build(kind, num_stages, num_micro_batches).map_err(refuse)?;
        schedule::check(&listed).map_err(refuse)?;
        Ok(SchedulePlan::Listed(listed))
    }

    /// Micro-batches per step.
    pub fn num_micro_batches(&self) -> usize {
        match self {
            SchedulePlan::Listed(schedule) => schedule.num_micro_batches,
            SchedulePlan::Driven {
                num_micro_batches, ..
            } => *num_micro_batches,
        }
    }

    /// The stages of a pipeline with this schedule, and the parts of the model on them.
    pub fn stages(&self, number: usize) -> Stages {
        match self {
            SchedulePlan::Listed(schedule) => Stages {
                number,
                ..schedule.arrangement()
            },
            SchedulePlan::Driven { .. } => Stages::plain(number),
        }
    }
}
