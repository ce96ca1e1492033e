//! One way to run a model on a machine.

use crate::Request;
use grid::{AxisOrder, Degrees};
use parallel::{ContextAttention, data::Sharding, pipeline::ScheduleKind};
use train::{
    Config,
    config::{OverlapNames, ParallelConfig, TrainingConfig},
};

/// Everything that the planner chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Ranks along each axis.
    pub degrees: Degrees,
    /// Which axis varies fastest over ranks.
    pub order: AxisOrder,
    /// Micro-batches per replica.
    pub micro_batches: usize,
    /// Whether layers are recomputed in backward.
    pub recompute: bool,
    /// How micro-batches pass through stages.
    pub schedule: ScheduleKind,
    /// What replicas along Data hold in shards.
    pub sharding: Sharding,
    /// Whether gathered weights are kept from a layer's forward to its backward.
    pub keep_gathered: bool,
    /// Whether ranks of X hold runs of the vectors between layers.
    pub sequence_parallel: bool,
    /// How attention meets the keys and values of other ranks along Context.
    pub context_attention: ContextAttention,
}

impl Candidate {
    /// Sequences of each micro-batch that a rank holds.
    pub fn local_sequences(&self, batch: usize) -> usize {
        batch / (self.degrees.data * self.degrees.z * self.micro_batches).max(1)
    }

    /// The configuration with which a training run would start.
    pub fn config(&self, request: &Request) -> Config {
        let training = TrainingConfig {
            micro_batches: self.micro_batches,
            recompute: self.recompute,
            ..request.training()
        };
        let parallel = ParallelConfig {
            ranks: Some(request.devices),
            grid: self.degrees,
            order: self.order.into(),
            schedule: self.schedule,
            overlap: OverlapNames(request.overlap.unwrap_or(request.preset.overlap())),
            bucket_mib: request.preset.bucket_mib(),
            keep_gathered: self.keep_gathered,
            sequence_parallel: self.sequence_parallel,
            context_attention: self.context_attention,
            gather_wide: request.gather_wide,
            gradient_wire: request.gradient_wire,
            hierarchical: request
                .hierarchical
                .unwrap_or(request.preset.hierarchical()),
            sharding: self.sharding,
            ..ParallelConfig::default()
        };
        Config {
            training,
            parallel,
            placement: request.placement.clone(),
            ..Config::new(request.model.clone())
        }
    }
}
