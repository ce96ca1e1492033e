//! The schedule itself: a list of actions for each stage.

use super::{Action, ChunkLocation, Pass, Placement, Result, Stages, shape::Shape};
use serde::{Deserialize, Serialize};

/// The actions of each stage, one after the other.
///
/// The lists are plain data: they may be read, printed, stored and changed. [`check`](super::check()) tests
/// whether a list keeps the rules. Sends do not block their stage, because each stage has a queue for each
/// neighbour and direction; receives block it until the message has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Number of stages, the degree of the Pipeline axis.
    pub num_stages: usize,
    /// Micro-batches per training step.
    pub num_micro_batches: usize,
    /// Model chunks per stage.
    pub num_chunks: usize,
    /// How they lie on the stages.
    pub placement: Placement,
    /// Whether backwards put off the gradients of weights, which then have actions of their own.
    pub splits_backward: bool,
    /// The list of each stage.
    pub stages: Vec<Vec<Action>>,
}

/// One computation for one micro-batch and chunk, without its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub work: Work,
    pub micro_batch: usize,
    pub chunk: usize,
}

/// What a stage computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Pass(Pass),
    /// What a backward has put off.
    Weights,
}

impl Task {
    pub fn forward(micro_batch: usize, chunk: usize) -> Task {
        Task {
            work: Work::Pass(Pass::Forward),
            micro_batch,
            chunk,
        }
    }

    pub fn backward(micro_batch: usize, chunk: usize) -> Task {
        Task {
            work: Work::Pass(Pass::Backward),
            micro_batch,
            chunk,
        }
    }

    pub fn weights(micro_batch: usize, chunk: usize) -> Task {
        Task {
            work: Work::Weights,
            micro_batch,
            chunk,
        }
    }
}

impl Schedule {
    /// Puts each receive directly before the pass that reads it, and each send directly after the pass that
    /// produces its data.
    pub(super) fn from_tasks<I>(shape: Shape, mut tasks: impl FnMut(usize) -> I) -> Schedule
    where
        I: IntoIterator<Item = Task>,
    {
        let mut splits_backward = false;
        let mut actions = |stage, task: Task| -> Vec<Action> {
            let Task {
                work,
                micro_batch,
                chunk,
            } = task;
            match work {
                Work::Pass(pass) => shape
                    .actions(ChunkLocation { stage, chunk }, pass, micro_batch)
                    .collect(),
                Work::Weights => {
                    splits_backward = true;
                    vec![Action::Weights { micro_batch, chunk }]
                }
            }
        };
        let mut list = |stage| {
            let tasks = tasks(stage).into_iter();
            tasks.flat_map(|task| actions(stage, task)).collect()
        };
        let stages = (0..shape.stages.number).map(&mut list).collect();
        Schedule {
            num_stages: shape.stages.number,
            num_micro_batches: shape.num_micro_batches,
            num_chunks: shape.stages.chunks,
            placement: shape.stages.placement,
            splits_backward,
            stages,
        }
    }

    /// The stages, and the parts of the model on them.
    pub fn arrangement(&self) -> Stages {
        Stages {
            number: self.num_stages,
            chunks: self.num_chunks,
            placement: self.placement,
        }
    }

    /// The most micro-batches that each part has between forward and backward at a time.
    pub(super) fn in_flight(&self) -> Vec<usize> {
        let stages = self.arrangement();
        let most = |part: usize| {
            let at = stages.location(part);
            let (mut live, mut most) = (0_usize, 0);
            let list = self.stages[at.stage].iter();
            for action in list.filter(|action| action.chunk() == at.chunk) {
                match (*action, self.splits_backward) {
                    (Action::Forward { .. }, _) => live += 1,
                    (Action::Backward { .. }, false) | (Action::Weights { .. }, _) => live -= 1,
                    _ => {}
                }
                most = most.max(live);
            }
            most
        };
        (0..stages.num_parts()).map(most).collect()
    }

    /// The counts, if they are valid for a schedule.
    pub(super) fn shape(&self, operation: &'static str) -> Result<Shape> {
        Shape::new(operation, self.arrangement(), self.num_micro_batches)
    }
}
