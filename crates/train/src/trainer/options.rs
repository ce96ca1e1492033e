//! How a trainer runs its steps.

use crate::config::Precision;
use parallel::{
    RowCut,
    data::{Sharding, StatePlaces},
    memory::ActivationMemory,
    pipeline::ScheduleKind,
};
use std::collections::BTreeMap;

/// How a trainer runs its steps. What overlaps with what is part of the context's
/// [`Settings`](parallel::Settings).
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Rows of the global batch.
    pub batch: usize,
    /// Micro-batches into which each replica's share of the batch is cut.
    pub micro_batches: usize,
    /// The types in which the model computes.
    pub precision: Precision,
    /// How micro-batches pass through pipeline stages.
    pub schedule: ScheduleKind,
    /// The number of segments in each part of the pipeline, from the first part to the last; without them, the largest cost
    /// of a part is minimal.
    pub stages: Option<Vec<usize>>,
    /// What replicas along Data hold in shards.
    pub sharding: Sharding,
    /// Where the optimiser's state, weights and gradients are.
    pub places: StatePlaces,
    /// What segments keep between forward and backward, and where.
    pub memory: ActivationMemory,
    /// Largest norm of the gradients; 0 means no limit.
    pub clip_norm: f64,
    /// Initial scale of the loss in f16.
    pub loss_scale: f64,
    /// Record forward and backward in the second step, and queue the recording in one call from then on.
    pub graph: bool,
    /// Steps from one [`StepDigest`](crate::digest::StepDigest) to the next; 0 means none.
    pub digest_every: u64,
    /// The options of named groups of parameters.
    pub groups: BTreeMap<String, GroupOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            batch: 1,
            micro_batches: 1,
            precision: Precision::F32,
            schedule: ScheduleKind::default(),
            stages: None,
            sharding: Sharding::None,
            places: StatePlaces::DEVICE,
            memory: ActivationMemory::default(),
            clip_norm: 0.0,
            loss_scale: 65_536.0,
            graph: false,
            digest_every: 0,
            groups: BTreeMap::new(),
        }
    }
}

impl Options {
    /// Options for global batches of `batch` rows, cut into `micro_batches`.
    pub fn new(batch: usize, micro_batches: usize) -> Options {
        Options {
            batch,
            micro_batches,
            ..Options::default()
        }
    }

    /// How a batch is cut: into the rows of each replica and then into micro-batches, or first into micro-batches where these are
    /// summed over the replicas one by one.
    pub fn row_cut(&self) -> RowCut {
        let cut = RowCut::new(self.batch, self.micro_batches);
        match self.schedule.updates_each_micro_batch() {
            true => RowCut {
                first: parallel::CutFirst::MicroBatches,
                ..cut
            },
            false => self.sharding.cut(cut),
        }
    }

    /// The same options with another precision.
    pub fn precision(self, precision: Precision) -> Options {
        Options { precision, ..self }
    }

    /// The same options with another pipeline schedule.
    pub fn schedule(self, schedule: ScheduleKind) -> Options {
        Options { schedule, ..self }
    }
}

/// The options of a group of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupOptions {
    /// Factor on the learning rate.
    pub rate_factor: f64,
    /// Weight decay of parameters that decay, instead of the optimiser's.
    pub weight_decay: Option<f64>,
}

impl Default for GroupOptions {
    fn default() -> Self {
        GroupOptions {
            rate_factor: 1.0,
            weight_decay: None,
        }
    }
}
