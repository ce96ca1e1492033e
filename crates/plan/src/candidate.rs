//! One way to run a model on a machine.

use crate::Request;
use grid::{AxisOrder, Degrees};
use parallel::{
    ContextAttention,
    data::{Sharding, UpdatePlace},
    memory::{ActivationMemory, SegmentMemory},
    pipeline::ScheduleKind,
    work::{SegmentWork, Work},
};
use std::sync::Arc;
use train::{
    Config,
    config::{
        ActivationPlaces, OverlapNames, ParallelConfig, PlaceKind, PlacementConfig, SegmentPlaces,
        TrainingConfig,
    },
    placement::depths,
};

/// Everything that the planner chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Ranks along each axis.
    pub degrees: Degrees,
    /// Which axis varies fastest over ranks.
    pub order: AxisOrder,
    /// Micro-batches per replica.
    pub micro_batches: usize,
    /// What segments do with what they keep for their backward.
    pub memory: SegmentChoices,
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
    /// Where the optimiser's state, weights and gradients are.
    pub places: StatePlaceKinds,
}

/// Where each kind of state is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatePlaceKinds {
    /// The optimiser's state, and the weights in the accumulator type.
    pub optimiser: PlaceKind,
    /// What updates the weights.
    pub update: UpdatePlace,
    /// The weights that forward and backward read.
    pub weights: PlaceKind,
    /// Gradients.
    pub gradients: PlaceKind,
}

impl StatePlaceKinds {
    /// Everything on the device.
    pub const DEVICE: StatePlaceKinds = StatePlaceKinds {
        optimiser: PlaceKind::Device,
        update: UpdatePlace::Device,
        weights: PlaceKind::Device,
        gradients: PlaceKind::Device,
    };

    /// Each by its key in a configuration.
    pub fn named(&self) -> [(&'static str, PlaceKind); 3] {
        [
            ("placement.optimiser", self.optimiser),
            ("placement.weights", self.weights),
            ("placement.gradients", self.gradients),
        ]
    }
}

impl From<[PlaceKind; 3]> for StatePlaceKinds {
    /// The places of the optimiser's state, of weights and of gradients; the device updates.
    fn from([optimiser, weights, gradients]: [PlaceKind; 3]) -> StatePlaceKinds {
        StatePlaceKinds {
            optimiser,
            update: UpdatePlace::Device,
            weights,
            gradients,
        }
    }
}

impl From<&PlacementConfig> for StatePlaceKinds {
    fn from(config: &PlacementConfig) -> StatePlaceKinds {
        StatePlaceKinds {
            update: config.update,
            ..[config.optimiser, config.weights, config.gradients].into()
        }
    }
}

/// What the segments of a model do with what they keep for their backward.
#[derive(Clone, Debug, PartialEq)]
pub enum SegmentChoices {
    /// All do the same; only those are recomputed that the model recomputes.
    All(SegmentMemory),
    /// One choice for each segment.
    Each(Arc<[SegmentMemory]>),
}

impl SegmentChoices {
    /// The choice of a segment of this number and work.
    pub fn of(&self, number: usize, segment: &SegmentWork) -> SegmentMemory {
        let choice = match self {
            SegmentChoices::All(all) => *all,
            SegmentChoices::Each(each) => each.get(number).copied().unwrap_or_default(),
        };
        SegmentMemory {
            recompute: choice.recompute && segment.recomputed,
            ..choice
        }
    }

    /// The choice of each segment of a model.
    pub fn each(&self, work: &Work) -> Vec<SegmentMemory> {
        let segments = work.segments.iter().enumerate();
        segments
            .map(|(number, segment)| self.of(number, segment))
            .collect()
    }

    /// Whether every segment is recomputed that the model recomputes. Published counts of flop know only all or none.
    pub fn recomputes_all(&self) -> bool {
        matches!(self, SegmentChoices::All(all) if all.recompute)
    }

    /// What all segments do, if they do the same.
    pub fn all(&self) -> Option<SegmentMemory> {
        match self {
            SegmentChoices::All(all) => Some(*all),
            SegmentChoices::Each(_) => None,
        }
    }
}

impl From<SegmentMemory> for SegmentChoices {
    fn from(all: SegmentMemory) -> SegmentChoices {
        SegmentChoices::All(all)
    }
}

impl Candidate {
    /// Sequences of each micro-batch that a rank holds.
    pub fn local_sequences(&self, batch: usize) -> usize {
        batch / (self.degrees.data * self.degrees.z * self.micro_batches).max(1)
    }

    /// The configuration with which a training run would start.
    pub fn config(&self, request: &Request) -> Config {
        let memory = match &self.memory {
            SegmentChoices::All(all) => ActivationMemory::from(*all),
            SegmentChoices::Each(each) => {
                ActivationMemory::default().with_segments(each, &request.work.kinds())
            }
        };
        let activations = match self.memory.all() {
            Some(all) => ActivationPlaces::All(all.place),
            None => SegmentPlaces {
                host: memory.host,
                files: memory.files,
            }
            .into(),
        };
        let training = TrainingConfig {
            micro_batches: self.micro_batches,
            recompute: memory.recompute,
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
        let mut config = Config {
            training,
            tuning: request.tuning.clone(),
            parallel,
            placement: PlacementConfig {
                optimiser: self.places.optimiser,
                update: self.places.update,
                weights: self.places.weights,
                gradients: self.places.gradients,
                activations,
                piece_kib: request.piece_kib,
                folder: None,
            },
            ..Config::new(request.model.clone())
        };
        config.device.memory_limit = request.memory_limit;
        if self.degrees.pipeline > 1 || self.schedule.num_chunks() > 1 {
            // A grid that the model does not fit is refused when its trainer is made.
            config.parallel.stages = depths(&config, &request.work, Some(&request.machine)).ok();
        }
        config
    }
}
