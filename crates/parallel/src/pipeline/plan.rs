//! How the micro-batches of a step pass through the stages.

use super::schedule::{self, Overlapped, Schedule, ScheduleKind, Stages};
use crate::data::VersionGradients;
use hal::error::Counted;
use tensor::{Error, Result};

/// How the micro-batches of a step pass through the stages.
#[derive(Clone, Debug)]
pub enum SchedulePlan {
    /// By a list of actions per stage.
    Listed(Schedule),
    /// By lists that continue from one step into the next, with several versions of the weights.
    Overlapped(Overlapped),
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
            let found = format!(
                "{kind} for {} and {}",
                Counted(num_stages, "stage"),
                Counted(num_micro_batches, "micro-batch")
            );
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
        if kind.delays_gradients() {
            let make = match kind.updates_each_micro_batch() {
                true => schedule::pipedream,
                false => schedule::pipedream_2bw,
            };
            let overlapped = make(num_stages, num_micro_batches).map_err(refuse)?;
            schedule::check_overlapped(&overlapped).map_err(refuse)?;
            return Ok(SchedulePlan::Overlapped(overlapped));
        }
        let listed = schedule::build(kind, num_stages, num_micro_batches).map_err(refuse)?;
        schedule::check(&listed).map_err(refuse)?;
        Ok(SchedulePlan::Listed(listed))
    }

    /// Micro-batches per step.
    pub fn num_micro_batches(&self) -> usize {
        match self {
            SchedulePlan::Listed(schedule) => schedule.num_micro_batches,
            SchedulePlan::Overlapped(overlapped) => overlapped.num_micro_batches,
            SchedulePlan::Driven {
                num_micro_batches, ..
            } => *num_micro_batches,
        }
    }

    /// Versions of the weights that a stage holds.
    pub fn num_versions(&self, stage: usize) -> usize {
        match self {
            SchedulePlan::Overlapped(overlapped) => overlapped.versions[stage],
            SchedulePlan::Listed(_) | SchedulePlan::Driven { .. } => 1,
        }
    }

    /// Whether each stage updates its weights by itself, after each micro-batch.
    pub fn updates_each_micro_batch(&self) -> bool {
        match self {
            SchedulePlan::Overlapped(overlapped) => overlapped.updates_each_micro_batch,
            SchedulePlan::Listed(_) | SchedulePlan::Driven { .. } => false,
        }
    }

    /// Updates of the weights in a step.
    pub fn num_updates(&self) -> usize {
        match self.updates_each_micro_batch() {
            true => self.num_micro_batches(),
            false => 1,
        }
    }

    /// Where a stage has the gradients of further versions.
    pub fn version_gradients(&self, stage: usize) -> VersionGradients {
        match self {
            SchedulePlan::Overlapped(overlapped) if overlapped.ahead(stage)[1] > 0 => {
                VersionGradients::Own
            }
            _ => VersionGradients::Shared,
        }
    }

    /// The stages of a pipeline with this schedule, and the parts of the model on them.
    pub fn stages(&self, number: usize) -> Stages {
        match self {
            SchedulePlan::Listed(schedule) => Stages {
                number,
                ..schedule.arrangement()
            },
            SchedulePlan::Overlapped(_) | SchedulePlan::Driven { .. } => Stages::plain(number),
        }
    }
}
