//! The schedule itself: a list of actions for each stage.

use super::{Action, ChunkLocation, Pass, Result, shape::Shape};
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
    /// The list of each stage.
    pub stages: Vec<Vec<Action>>,
}

/// One pass of one micro-batch through one chunk, without its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub pass: Pass,
    pub micro_batch: usize,
    pub chunk: usize,
}

impl Task {
    pub fn forward(micro_batch: usize, chunk: usize) -> Task {
        Task {
            pass: Pass::Forward,
            micro_batch,
            chunk,
        }
    }

    pub fn backward(micro_batch: usize, chunk: usize) -> Task {
        Task {
            pass: Pass::Backward,
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
        let list = |stage| {
            let tasks = tasks(stage).into_iter();
            tasks
                .flat_map(|t| {
                    shape.actions(
                        ChunkLocation {
                            stage,
                            chunk: t.chunk,
                        },
                        t.pass,
                        t.micro_batch,
                    )
                })
                .collect()
        };
        Schedule {
            num_stages: shape.num_stages,
            num_micro_batches: shape.num_micro_batches,
            num_chunks: shape.num_chunks,
            stages: (0..shape.num_stages).map(list).collect(),
        }
    }

    /// The counts, if they are valid for a schedule.
    pub(super) fn shape(&self, operation: &'static str) -> Result<Shape> {
        Shape::new(
            operation,
            self.num_stages,
            self.num_chunks,
            self.num_micro_batches,
        )
    }
}
