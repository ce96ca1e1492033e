//! The request to the planner.
//!
//! `preset` has the choices from which a plan starts, `checks` what a request must state, and `beyond` what it may leave open.

mod beyond;
mod checks;
mod preset;

pub use preset::Preset;

use crate::{Error, Result, StatePlaceKinds};
use grid::{
    AxisOrder, Degrees,
    machine::{AttentionForm, Machine},
};
use parallel::{
    ContextAttention, GradientWire, Hierarchical, Overlap, Reproducible,
    data::Sharding,
    memory::{SegmentMemory, Segments},
    pipeline::ScheduleKind,
    work::Work,
};
use std::{sync::Arc, time::Duration};
use train::{
    Config, ModelConfig,
    config::{
        ActivationPlaces, BitsChoice, MemoryMode, ObjectiveKind, OptimiserKind, OrderChoice,
        PlaceKind, PlacementConfig, Precision, TrainingConfig, TuningConfig,
    },
};

/// The request to the planner, which chooses every field that is `None`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Number of devices in the job.
    pub devices: usize,
    /// The model's name, for the report.
    pub model_name: String,
    /// The model.
    pub model: ModelConfig,
    /// Which of its parameters are trained.
    pub tuning: TuningConfig,
    /// Its work per row of the batch.
    pub work: Arc<Work>,
    /// What training minimises.
    pub objective: ObjectiveKind,
    /// Rows, such as sequences, in the global batch.
    pub batch: usize,
    /// The types in which the model computes.
    pub precision: Precision,
    /// The rule by which weights follow their gradients.
    pub optimiser: OptimiserKind,
    /// The choices from which the plan starts.
    pub preset: Preset,
    /// Whether the model may be cut into stages.
    pub allow_pipeline: bool,
    /// Ranks along each axis.
    pub grid: Option<Degrees>,
    /// Which axis varies fastest over ranks.
    pub order: Option<AxisOrder>,
    /// Micro-batches per replica.
    pub micro_batches: Option<usize>,
    /// Whether layers are recomputed in backward.
    pub recompute: Option<bool>,
    /// What each segment does with what it keeps, instead of [`recompute`](Request::recompute) and
    /// [`activation_places`](Request::activation_places), which hold for all.
    pub segments: Option<Arc<[SegmentMemory]>>,
    /// How micro-batches pass through stages.
    pub schedule: Option<ScheduleKind>,
    /// What replicas along Data hold in shards.
    pub sharding: Option<Sharding>,
    /// Whether gathered weights are kept from a layer's forward to its backward.
    pub keep_gathered: Option<bool>,
    /// Whether ranks of X hold runs of the vectors between layers (sequence parallelism).
    pub sequence_parallel: Option<bool>,
    /// How attention meets the keys and values of other ranks along Context.
    pub context_attention: Option<ContextAttention>,
    /// Whether weights are gathered in f32, as under automatic casting.
    pub gather_wide: bool,
    /// The type in which gradients travel.
    pub gradient_wire: GradientWire,
    /// What the bits of the training depend on. [`BitsChoice::Auto`] is settled for each simulated candidate.
    pub reproducible: BitsChoice,
    /// Collectives that run beside compute, instead of the preset's.
    pub overlap: Option<Overlap>,
    /// Whether collectives cross nodes in two levels, instead of the preset's choice.
    pub hierarchical: Option<Hierarchical>,
    /// Whether the fastest variant of every GEMM is used, as if chosen by timing; otherwise GEMMs run as they
    /// are written.
    pub tuned: bool,
    /// Whether attention writes its scores to memory, which describes other programs: this library's attention never does. If
    /// layers are not recomputed, attention alone is (selective recomputation).
    pub stored_scores: bool,
    /// Whether the best plans' segments each get a [choice](crate::memory) of their own of what they keep and where.
    pub memory: MemoryMode,
    /// Bytes that each rank may allocate, if fewer than the machine's devices have.
    pub memory_limit: Option<usize>,
    /// Where the optimiser's state, weights and gradients may be, of which each is tried; if none is named, the device, and if
    /// nothing fits there, what is beyond it: first the state alone, which is largest and moves once per step.
    pub state_places: Vec<StatePlaceKinds>,
    /// The same for activations between forward and backward.
    pub activation_places: Vec<PlaceKind>,
    /// The most KiB of a piece that moves to or from there.
    pub piece_kib: usize,
    /// After this time no further candidate is simulated, once a dozen are, or after ten times of it. The estimates that precede
    /// are not counted.
    pub budget: Duration,
}

impl Request {
    /// A plan for `devices` of `machine` that trains `model` with this library's defaults and a batch of 16.8M
    /// tokens, or of eight rows per device if the model reads no text.
    ///
    /// # Errors
    /// [`Error::Model`] for a model with a size that cannot be; [`Error::Train`] for one that cannot be built.
    pub fn new(
        machine: Machine,
        devices: usize,
        model_name: impl Into<String>,
        model: ModelConfig,
    ) -> Result<Request> {
        model.check().map_err(Error::Model)?;
        let batch = match model.text() {
            Some(text) => (BATCH_TOKENS / text.context.max(1)).max(1),
            None => 8 * devices.max(1),
        };
        let work = Arc::new(Config::new(model.clone()).work()?);
        Ok(Request {
            machine: Arc::new(machine),
            devices,
            model_name: model_name.into(),
            model,
            tuning: TuningConfig::default(),
            work,
            objective: ObjectiveKind::default(),
            batch,
            precision: Precision::Bf16,
            optimiser: OptimiserKind::default(),
            preset: Preset::Ours,
            allow_pipeline: false,
            grid: None,
            order: None,
            micro_batches: None,
            recompute: None,
            segments: None,
            schedule: None,
            sharding: None,
            keep_gathered: None,
            sequence_parallel: None,
            context_attention: None,
            gather_wide: false,
            gradient_wire: GradientWire::Mixed,
            reproducible: BitsChoice::Auto,
            overlap: None,
            hierarchical: None,
            tuned: true,
            stored_scores: false,
            memory: MemoryMode::Stated,
            memory_limit: None,
            state_places: Vec::new(),
            activation_places: Vec::new(),
            piece_kib: PlacementConfig::default().piece_kib,
            budget: Duration::from_secs(12),
        })
    }

    /// The same, where these parameters are trained.
    ///
    /// # Errors
    /// [`Error::Train`] for a pattern that selects nothing.
    pub fn with_tuning(mut self, tuning: &TuningConfig) -> Result<Request> {
        if self.tuning != *tuning {
            let mut config = Config::new(self.model.clone());
            config.tuning = tuning.clone();
            self.work = Arc::new(config.work()?);
            self.tuning = config.tuning;
        }
        Ok(self)
    }

    /// The same with the objective, batch, precision and optimiser of a configuration.
    pub fn with_training(self, training: &TrainingConfig) -> Request {
        Request {
            objective: training.objective,
            batch: training.batch,
            precision: training.precision,
            optimiser: training.optimiser,
            ..self
        }
    }

    /// The request for what a configuration's run does: its model, batch, grid and choices, on as many devices as its grid has.
    /// With `training.memory = "auto"`, what segments keep is left open.
    ///
    /// # Errors
    /// As [`Request::new`]; [`Error::Train`] for a grid that does not fit, and for names of segments that the model does not have.
    pub fn of(config: &Config, machine: Machine) -> Result<Request> {
        let devices = config.grid()?.world_size();
        let name = "the configured model";
        let (training, parallel) = (&config.training, &config.parallel);
        let request = Request::new(machine, devices, name, config.model.clone())?;
        let request = request.with_tuning(&config.tuning)?.with_training(training);
        let memory = config.activation_memory();
        let is_stated = training.memory == MemoryMode::Stated;
        let segments = (is_stated && memory.names_segments()).then(|| request.work.memory(&memory));
        Ok(Request {
            allow_pipeline: true,
            grid: Some(parallel.grid),
            order: match parallel.order {
                OrderChoice::Fixed(order) => Some(order),
                OrderChoice::Auto => None,
            },
            micro_batches: Some(training.micro_batches),
            schedule: Some(parallel.schedule),
            sharding: Some(parallel.sharding),
            keep_gathered: Some(parallel.keep_gathered),
            sequence_parallel: Some(parallel.sequence_parallel),
            context_attention: Some(parallel.context_attention),
            gather_wide: parallel.gather_wide,
            gradient_wire: parallel.gradient_wire,
            overlap: Some(parallel.overlap.0),
            hierarchical: Some(parallel.hierarchical),
            reproducible: training.reproducible,
            recompute: is_stated.then_some(training.recompute != Segments::None),
            segments: segments
                .transpose()
                .map_err(train::Error::from)?
                .map(Arc::from),
            memory: training.memory,
            memory_limit: config.device.memory_limit,
            state_places: vec![(&config.placement).into()],
            activation_places: match config.placement.activations {
                ActivationPlaces::All(place) if is_stated => vec![place],
                _ => Vec::new(),
            },
            piece_kib: config.placement.piece_kib,
            ..request
        })
    }

    /// The part of the configuration that every candidate has.
    pub(crate) fn training(&self) -> TrainingConfig {
        TrainingConfig {
            objective: self.objective,
            batch: self.batch,
            precision: self.precision,
            optimiser: self.optimiser,
            reproducible: self.reproducible,
            ..TrainingConfig::default()
        }
    }

    /// Bytes that each rank may allocate.
    pub(crate) fn memory_bytes(&self) -> usize {
        let all = self.machine.device.memory_bytes();
        self.memory_limit.map_or(all, |limit| limit.min(all))
    }

    /// Bytes of the host's memory that each rank may take, if they are known; `None` where ranks compute on hosts.
    pub(crate) fn host_memory_bytes(&self) -> Option<usize> {
        self.machine.device.host_memory_bytes()
    }

    /// How attention is computed, if layers are recomputed in backward or not.
    pub(crate) fn attention(&self, recompute: bool) -> AttentionForm {
        match (self.stored_scores, recompute) {
            (false, _) => AttentionForm::Fused,
            (true, true) => AttentionForm::Stored,
            (true, false) => AttentionForm::Recomputed,
        }
    }

    /// Whether the machine's devices are hosts, which share their cores among ranks.
    pub(crate) fn is_on_hosts(&self) -> bool {
        self.machine.device.shared_cores.is_some()
    }

    /// What the bits are taken to depend on where no single candidate is meant.
    pub(crate) fn priced_bits(&self) -> Reproducible {
        match self.reproducible {
            BitsChoice::Auto if self.is_on_hosts() => Reproducible::Grid,
            choice => choice.or_run(),
        }
    }

    /// Tokens per step; rows if the model does not read text.
    pub fn tokens(&self) -> f64 {
        let per_row = self.model.text().map_or(1, |text| text.context);
        (self.batch * per_row) as f64
    }

    /// Flop per step as published speeds count them, with or without recomputation.
    pub fn flop(&self, recompute: bool) -> f64 {
        let counted = self.model.published_flop_per_row(recompute);
        let second = if recompute { 4.0 / 3.0 } else { 1.0 };
        counted.unwrap_or_else(|| self.work.flop_per_row() * second) * self.batch as f64
    }
}

/// Tokens of a batch of text that nothing states.
pub const BATCH_TOKENS: usize = 16_777_216;

/// The number of sequences that hold about `tokens` tokens: of the counts within 1 %, the one with the most
/// factors of 2.
pub fn sequences(tokens: f64, sequence: usize) -> usize {
    let exact = tokens / sequence.max(1) as f64;
    let (low, high) = (
        (exact * 0.99).ceil() as usize,
        (exact * 1.01).floor() as usize,
    );
    let halvings = (0..usize::BITS).rev().map(|power| 1_usize << power);
    let fits = |unit: usize| {
        let multiple = (exact / unit as f64).round() as usize * unit;
        (low..=high).contains(&multiple).then_some(multiple)
    };
    halvings
        .filter_map(fits)
        .find(|count| *count > 0)
        .unwrap_or((exact.round() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_bounds() {
        let model = families::gpt::published(2, 1024, 8).into();
        let machine = Machine::find("perlmutter").unwrap();
        let request = Request::new(machine, 4, "small", model).unwrap();
        let refusal = |change: &dyn Fn(&mut Request)| {
            let mut request = request.clone();
            change(&mut request);
            request.check().unwrap_err().to_string()
        };
        assert_eq!(
            refusal(&|request| request.batch = usize::MAX),
            "batch: found 18446744073709551615 sequences, needs 1 to 16777216"
        );
        assert_eq!(
            refusal(&|request| (request.batch, request.micro_batches) = (8, Some(0))),
            "micro_batches: found 0 for 8 sequences, needs 1 to as many as there are sequences"
        );
    }

    #[test]
    fn a_rounded_number_of_tokens_is_a_batch_that_halves() {
        assert_eq!(sequences(16.8e6, 2048), 8192);
        assert_eq!(sequences(16_777_216.0, 2048), 8192);
        assert_eq!(sequences(6.3e6, 2048), 3072);
        assert_eq!(sequences(1_048_576.0, 512), 2048);
        assert_eq!(sequences(3000.0, 2048), 1);
    }
}
