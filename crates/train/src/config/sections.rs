//! The sections of a configuration.

use super::{OrderChoice, OverlapNames};
use crate::{
    Error, Result,
    data::{OrderMode, TokenType, TokenizerChoice},
    optimiser::{AdamW, Optimiser, Rate, RateSchedule, Sgd},
};
use grid::Degrees;
use parallel::{Hierarchical, Overlap, Positions, pipeline::ScheduleKind};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tensor::DType;

crate::section! {
/// Where the data comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// A text file, a folder of text files, or a file of tokens; none means the Rust sources around this program.
    pub path: Option<PathBuf>,
    /// Which files of a folder.
    pub extensions: Vec<String>,
    /// How text becomes tokens.
    pub tokenizer: TokenizerChoice,
    /// Element type of a file of tokens.
    pub token_type: Option<TokenType>,
    /// Share of the data, at its end, kept for validation.
    pub validation_fraction: f64,
    /// How sequences are picked.
    pub order: OrderMode,
}
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            path: None,
            extensions: vec!["rs".into(), "txt".into(), "md".into()],
            tokenizer: TokenizerChoice::Bytes,
            token_type: None,
            validation_fraction: 0.1,
            order: OrderMode::Random,
        }
    }
}

/// The types that a model computes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in f64.
    F64,
    /// Everything in f32.
    #[default]
    F32,
    /// Products and activations in bf16; weights, gradients and state in f32.
    Bf16,
    /// As bf16, in f16, with a dynamic scale of the loss.
    F16,
}

impl Precision {
    /// Type of activations and of the weights' working copy.
    pub const fn dtype(self) -> DType {
        match self {
            Precision::F64 => DType::F64,
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::Bf16,
            Precision::F16 => DType::F16,
        }
    }
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserKind {
    /// Adam with decoupled weight decay.
    #[default]
    AdamW,
    /// Stochastic gradient descent, with momentum if that is not 0.
    Sgd,
}

crate::section! {
/// Steps, batch, optimiser, validation, checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingConfig {
    /// Number of steps.
    pub steps: u64,
    /// Sequences in the global batch.
    pub batch: usize,
    /// Micro-batches that each replica's share of it is cut into.
    pub micro_batches: usize,
    /// The types that the model computes in.
    pub precision: Precision,
    /// Which optimiser.
    pub optimiser: OptimiserKind,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Lowest learning rate, reached at the last step.
    pub lowest_rate: f64,
    /// Steps in which the rate grows from 0.
    pub warmup_steps: u64,
    /// How it goes on.
    pub rate_schedule: RateSchedule,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// AdamW's decay of the first moments.
    pub beta1: f64,
    /// AdamW's decay of the second moments.
    pub beta2: f64,
    /// AdamW's addend to the root of the second moments.
    pub epsilon: f64,
    /// SGD's momentum.
    pub momentum: f64,
    /// Largest norm of the gradients; 0 means any.
    pub clip_norm: f64,
    /// Steps from one validation to the next; 0 means only at the end.
    pub validate_every: u64,
    /// Batches of a validation.
    pub validation_batches: usize,
    /// Steps from one checkpoint to the next; 0 means only at the end.
    pub checkpoint_every: u64,
    /// How many checkpoints are kept.
    pub keep_checkpoints: usize,
    /// Initial scale of the loss in f16.
    pub loss_scale: f64,
    /// Drop activations in forward and compute them again in backward.
    pub recompute: bool,
    /// Whether forward and backward are recorded in the second step and then queued in one call (CUDA and HIP graphs): for
    /// models so small that the device waits for the host. On one rank, and without dropout.
    pub graph: bool,
}
}

impl Default for TrainingConfig {
    fn default() -> Self {
        TrainingConfig {
            steps: 600,
            batch: 16,
            micro_batches: 2,
            precision: Precision::F32,
            optimiser: OptimiserKind::AdamW,
            learning_rate: 2e-3,
            lowest_rate: 2e-4,
            warmup_steps: 50,
            rate_schedule: RateSchedule::Cosine,
            weight_decay: 0.1,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            momentum: 0.0,
            clip_norm: 1.0,
            validate_every: 100,
            validation_batches: 8,
            checkpoint_every: 200,
            keep_checkpoints: 3,
            loss_scale: 65_536.0,
            recompute: false,
            graph: false,
        }
    }
}

impl TrainingConfig {
    /// What is wrong with the numbers.
    ///
    /// # Errors
    /// [`Error::Config`] for the first count of 0 or rate that is no positive number.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("steps", self.steps as usize),
            ("batch", self.batch),
            ("micro_batches", self.micro_batches),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Error::Config(format!(
                "training.{name}: found 0, needs at least 1"
            )));
        }
        let positive = [
            ("learning_rate", self.learning_rate),
            ("epsilon", self.epsilon),
            ("loss_scale", self.loss_scale),
        ];
        if let Some((name, value)) = positive
            .into_iter()
            .find(|(_, value)| !(value.is_finite() && *value > 0.0))
        {
            return Err(Error::Config(format!(
                "training.{name}: found {value}, needs a number above 0"
            )));
        }
        let shares = [
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("momentum", self.momentum),
        ];
        match shares
            .into_iter()
            .find(|(_, value)| !(0.0..1.0).contains(value))
        {
            None => Ok(()),
            Some((name, value)) => Err(Error::Config(format!(
                "training.{name}: found {value}, needs one in [0, 1)"
            ))),
        }
    }

    /// The optimiser, with its rates.
    pub fn optimiser(&self) -> Box<dyn Optimiser> {
        let rate = Rate {
            highest: self.learning_rate,
            lowest: self.lowest_rate,
            warmup_steps: self.warmup_steps,
            steps: self.steps,
            schedule: self.rate_schedule,
        };
        match self.optimiser {
            OptimiserKind::AdamW => Box::new(AdamW {
                rate,
                beta1: self.beta1,
                beta2: self.beta2,
                epsilon: self.epsilon,
                weight_decay: self.weight_decay,
            }),
            OptimiserKind::Sgd => Box::new(Sgd {
                rate,
                momentum: self.momentum,
                weight_decay: self.weight_decay,
            }),
        }
    }
}

crate::section! {
/// Grid, schedule, overlap, threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParallelConfig {
    /// Number of ranks; by default what the grid has.
    pub ranks: Option<usize>,
    /// Ranks along each axis.
    pub grid: Degrees,
    /// Which axis varies fastest over the grid's positions: `auto`, or all axes as in `x,y,z,pipeline,data`.
    pub order: OrderChoice,
    /// Which rank sits at which position: `by-node`, or `by-rank` as the launcher has dealt them.
    pub positions: Positions,
    /// Whether collectives of groups that span nodes go inside each node, across and back: `auto`, `on` or `off`.
    pub hierarchical: Hierarchical,
    /// The machine that this runs on, by name or by its file, for choices that depend on its links.
    pub machine: Option<String>,
    /// How micro-batches go through stages.
    pub schedule: ScheduleKind,
    /// Which collectives run beside compute: `oar`, `ors`, `oag` or `oag-backward`, `data`.
    pub overlap: OverlapNames,
    /// Bytes, in MiB, of gathered weights that may wait for their use.
    pub gather_budget_mib: usize,
    /// Keep gathered weights from a layer's forward to its backward.
    pub keep_gathered: bool,
    /// Weights of a 16-bit type travel in f32, as in systems with f32 parameters under an automatic cast.
    pub gather_wide: bool,
    /// Largest bucket of gradients, in MiB.
    pub bucket_mib: usize,
    /// Share the optimiser's state over Data (ZeRO stage 1).
    pub sharded_optimiser: bool,
    /// Threads that each rank computes with.
    pub threads: usize,
    /// Seconds that a rank waits for others before the run ends.
    pub timeout_s: f64,
    /// Compare the ranks' calls before each collective.
    pub checked: bool,
}
}

impl Default for ParallelConfig {
    fn default() -> Self {
        ParallelConfig {
            ranks: None,
            grid: Degrees {
                x: 2,
                y: 1,
                z: 2,
                data: 1,
                pipeline: 2,
            },
            order: OrderChoice::Auto,
            positions: Positions::ByNode,
            hierarchical: Hierarchical::Auto,
            machine: None,
            schedule: ScheduleKind::default(),
            overlap: OverlapNames(Overlap::ALL),
            gather_budget_mib: 256,
            keep_gathered: false,
            gather_wide: false,
            bucket_mib: 25,
            sharded_optimiser: false,
            threads: 1,
            timeout_s: 60.0,
            checked: false,
        }
    }
}
