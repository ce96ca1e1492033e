//! The sections of a configuration.

use super::{
    BitsChoice, Numbers, OrderChoice, OverlapNames, check_counts, check_numbers, check_path,
};
use crate::{
    Error, Result,
    data::{self, LossOn, Mixture, OrderMode, TokenType, TokenizerChoice},
    generate::MOST_TOKENS,
    optimiser::{Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, Rate, RateSchedule, Sgd},
};
use grid::Degrees;
use parallel::{
    ContextAttention, GradientWire, Hierarchical, Overlap, Positions, data::Sharding,
    memory::Segments, pipeline::ScheduleKind,
};
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tensor::DType;

crate::section! {
    /// Where the data comes from.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct DataConfig {
        /// A text file, a folder of text files, a folder or a file of tokens, or a file of samples, `.jsonl`; absent: the Rust
        /// sources around this program. A relative path begins at the folder in which the run is started.
        pub path: Option<PathBuf>,
        /// Several sources instead of one path, of text or of tokens. Each gives a share of the sequences that is its weight over
        /// the sum of all; its windows are always drawn by epochs.
        pub mixture: Vec<MixtureEntry>,
        /// The data to validate on, of the same kind; absent: the end of the other.
        pub validation_path: Option<PathBuf>,
        /// More data of the same kind, each with a name, on which each validation states a loss of its own. It counts neither in
        /// the validation loss nor in what follows from that.
        pub evaluations: Vec<EvaluationEntry>,
        /// Extensions of the files that are read in a folder.
        pub extensions: Vec<String>,
        /// How text becomes tokens. A folder of tokens brings its own, for which the default stands.
        pub tokenizer: TokenizerChoice,
        /// Element type of a file of token ids; absent: by its extension, `.u16` or `.u32`.
        pub token_type: Option<TokenType>,
        /// Fraction of the data, at its end, that is kept for validation.
        pub validation_fraction: f64,
        /// How training sequences are drawn: anywhere, or window by window in each epoch. Samples and mixtures are always
        /// drawn by epochs.
        pub order: OrderMode,
        /// How the messages of a chat become text: a template in Jinja's language, `.jinja`, or a `tokenizer_config.json`; absent:
        /// the template that lies beside the tokenizer's file.
        pub chat_template: Option<PathBuf>,
        /// The tokens of samples that count in the loss: completions and what an assistant has written, or all.
        pub loss_on: LossOn,
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        DataConfig {
            path: None,
            mixture: Vec::new(),
            validation_path: None,
            evaluations: Vec::new(),
            extensions: vec!["rs".into(), "txt".into(), "md".into()],
            tokenizer: TokenizerChoice::Bytes,
            token_type: None,
            validation_fraction: 0.1,
            order: OrderMode::Random,
            chat_template: None,
            loss_on: LossOn::Answers,
        }
    }
}

/// One source of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureEntry {
    /// As [`DataConfig::path`].
    pub path: PathBuf,
    /// Its share of the sequences, beside the weights of the others.
    pub weight: f64,
}

/// Data that is only watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationEntry {
    /// Its name in the records.
    pub name: String,
    /// As [`DataConfig::validation_path`].
    pub path: PathBuf,
}

impl DataConfig {
    /// What is wrong with the paths and weights.
    ///
    /// # Errors
    /// [`Error::Setting`] for an empty path or name, for a fraction that leaves a part without data, for a path beside a mixture, and
    /// for weights that a mixture cannot have.
    pub fn check(&self) -> Result<()> {
        check_path("data.path", self.path.as_deref())?;
        check_path("data.validation_path", self.validation_path.as_deref())?;
        for entry in &self.evaluations {
            check_path("data.evaluations", Some(&entry.path))?;
            if entry.name.trim().is_empty() {
                let found = format!("an empty name for {}", entry.path.display());
                return Err(Error::setting("data.evaluations", found, "a name"));
            }
        }
        let fraction = self.validation_fraction;
        if self.validation_path.is_none() && !(fraction > 0.0 && fraction < 1.0) {
            let needed = "a number above 0 and below 1";
            return Err(Error::setting("data.validation_fraction", fraction, needed));
        }
        if self.mixture.is_empty() {
            return Ok(());
        }
        if let Some(path) = &self.path {
            let found = format!("{}, beside data.mixture", path.display());
            return Err(Error::setting("data.path", found, "one of the two"));
        }
        for entry in &self.mixture {
            check_path("data.mixture", Some(&entry.path))?;
        }
        let weights: Vec<f64> = self.mixture.iter().map(|entry| entry.weight).collect();
        match Mixture::check_weights(&weights) {
            Ok(()) => Ok(()),
            Err(data::Error::Bound { found, needed, .. }) => {
                Err(Error::setting("data.mixture", found, needed))
            }
            Err(other) => Err(other.into()),
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
    /// Matmuls and activations in bf16; weights, gradients and state in f32.
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
    /// AdamW with moments of 8 bits.
    AdamW8bit,
    /// Second moments as means of rows and columns, without a first moment.
    Adafactor,
    /// Stochastic gradient descent, with momentum if that is not 0.
    Sgd,
    /// The sign of an interpolated momentum.
    Lion,
    /// Orthogonalised momentum for the matrices of hidden layers, AdamW for all other parameters.
    Muon,
}

/// What training minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveKind {
    /// The model's own loss, such as the cross-entropy of the next token.
    #[default]
    Model,
    /// That of direct preference optimisation, on pairs of answers.
    Dpo,
}

/// Who says what each segment does with what it keeps for its backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryMode {
    /// The configuration.
    #[default]
    Stated,
    /// A search, before the run.
    Auto,
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
        /// Number of micro-batches into which each replica's share of the batch is cut.
        pub micro_batches: usize,
        /// The type in which the model computes; sums, master weights and the optimiser's state are at least f32, but for the
        /// 8-bit state of `adamw8bit`.
        pub precision: Precision,
        /// What training minimises: the loss of the model, or that of direct preference optimisation (DPO) on pairs of answers, with
        /// the model that training begins with as the reference.
        pub objective: ObjectiveKind,
        /// DPO's weight of the distance from the reference model.
        pub dpo_beta: f64,
        /// The probability that the rejected answer of a pair is the better one, for labels with mistakes (conservative DPO).
        pub dpo_label_smoothing: f64,
        /// Which optimiser.
        pub optimiser: OptimiserKind,
        /// Highest learning rate. Lion's authors advise one 3 to 10 times below AdamW's. With Muon it is the rate of the
        /// parameters that follow AdamW.
        pub learning_rate: f64,
        /// Lowest learning rate, reached at the last step.
        pub lowest_rate: f64,
        /// Muon's highest learning rate, for the matrices of hidden layers; it rises and falls as `learning_rate` does.
        pub muon_rate: f64,
        /// Number of steps in which the rate grows from 0.
        pub warmup_steps: u64,
        /// How the rate falls after the warm-up.
        pub rate_schedule: RateSchedule,
        /// Weight decay of matrices; biases and norms do not decay.
        pub weight_decay: f64,
        /// AdamW's decay of the first moments; with Lion, the momentum's share in the direction of an update.
        pub beta1: f64,
        /// AdamW's decay of the second moments; with Lion, the decay of the momentum.
        pub beta2: f64,
        /// AdamW's addend to the root of the second moments.
        pub epsilon: f64,
        /// SGD's momentum.
        pub momentum: f64,
        /// Muon's decay of the momentum.
        pub muon_momentum: f64,
        /// Adafactor's update t keeps a share of 1 - t^-decay of its old means.
        pub adafactor_decay: f64,
        /// The largest root mean square of a parameter's directions with Adafactor, to which larger ones are scaled.
        pub adafactor_clip: f64,
        /// Largest norm of the gradients, to which larger ones are scaled; 0 does not clip.
        pub clip_norm: f64,
        /// Steps from one validation to the next; 0 means only at the end.
        pub validate_every: u64,
        /// Number of batches in a validation.
        pub validation_batches: usize,
        /// Number of validations in a row that may pass without a lower loss; then the run ends, before its last step. 0 means
        /// that it never does.
        pub patience: u64,
        /// A validation loss counts as lower if it is by more than this, in nats.
        pub min_delta: f64,
        /// Steps from one text that the model writes to the next, in samples.jsonl; 0 means only at the end.
        pub sample_every: u64,
        /// What it continues; empty: a line end.
        pub sample_prompt: String,
        /// The most tokens that it adds; 0 means no text, at the end either.
        pub sample_tokens: usize,
        /// Steps from one checkpoint to the next; 0 means only at the end.
        pub checkpoint_every: u64,
        /// Whether checkpoints are written while the next steps run: a step then waits only for a copy of weights and state to
        /// the host's memory. Otherwise it waits for the disk.
        pub checkpoint_async: bool,
        /// Steps from one local checkpoint to the next, which each node keeps for itself and for a partner node. 0 means none.
        pub local_checkpoint_every: u64,
        /// Where nodes keep them: a folder of the same path on every node, on a disk of its own or in its memory, such as
        /// `/dev/shm`. Each node needs room for two checkpoints of its ranks and of its partner's.
        pub local_checkpoint_dir: Option<PathBuf>,
        /// Number of newest checkpoints that are kept; at least one is.
        pub keep_checkpoints: usize,
        /// Steps from one checkpoint that is kept for ever to the next; these steps have a checkpoint whatever
        /// `checkpoint_every` is. 0 means none.
        pub keep_every: u64,
        /// Whether the checkpoint with the lowest validation loss is kept too, among those of steps that validate.
        pub keep_best: bool,
        /// Initial scale of the loss in f16.
        pub loss_scale: f64,
        /// The segments whose activations are dropped in forward and computed again in backward: all that the model
        /// recomputes, none, or those of some kinds or numbers. Neighbours in a block are recomputed as one.
        pub recompute: Segments,
        /// Who says what segments keep, and where: `stated` takes it from `training.recompute` and `placement.activations`; `auto`
        /// replaces both by what is fastest, segment by segment, within `device.memory_limit` or the machine's memory. The
        /// program settles it by simulation before the run, and records what it chose.
        pub memory: MemoryMode,
        /// Whether forward and backward are recorded in the second step and then queued in one call (CUDA and HIP graphs): for
        /// models so small that the device waits for the host. On one rank, and without dropout.
        pub graph: bool,
        /// What the bits of a run depend on: `run` means on its grid too; with `grid`, every grid, schedule, launcher and
        /// number of threads gives the same bits; `auto` is `grid` where the device, the model and the grid allow it, and
        /// otherwise `run`. A run settles it before its first step and records what it used.
        pub reproducible: BitsChoice,
        /// Steps from one digest of weights, gradients, optimiser state and activations to the next, in digests.jsonl and
        /// metrics.jsonl; copies of them on several ranks are then compared. 0 means none.
        pub digest_every: u64,
        /// Steps from one measurement of every rank's speed to the next, in speeds.jsonl: a matmul and a copy, some 50 ms on all
        /// ranks at once. A rank that is slow three times in a row is named. 0 means none.
        pub straggler_every: u64,
        /// The fraction of the median speed below which a rank is slow.
        pub straggler_below: f64,
        /// Whether the numbers of each step are also written for TensorBoard, into `tensorboard/` in the run's folder.
        pub tensorboard: bool,
    }
}

impl Default for TrainingConfig {
    fn default() -> Self {
        TrainingConfig {
            steps: 600,
            batch: 16,
            micro_batches: 2,
            precision: Precision::F32,
            objective: ObjectiveKind::Model,
            dpo_beta: 0.1,
            dpo_label_smoothing: 0.0,
            optimiser: OptimiserKind::AdamW,
            learning_rate: 2e-3,
            lowest_rate: 2e-4,
            muon_rate: 0.02,
            warmup_steps: 50,
            rate_schedule: RateSchedule::Cosine,
            weight_decay: 0.1,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            momentum: 0.0,
            muon_momentum: 0.95,
            adafactor_decay: 0.8,
            adafactor_clip: 1.0,
            clip_norm: 1.0,
            validate_every: 100,
            validation_batches: 8,
            patience: 0,
            min_delta: 0.0,
            sample_every: 0,
            sample_prompt: String::new(),
            sample_tokens: 200,
            checkpoint_every: 200,
            checkpoint_async: true,
            local_checkpoint_every: 0,
            local_checkpoint_dir: None,
            keep_checkpoints: 3,
            keep_every: 0,
            keep_best: false,
            loss_scale: 65_536.0,
            recompute: Segments::None,
            memory: MemoryMode::Stated,
            graph: false,
            reproducible: BitsChoice::Auto,
            digest_every: 0,
            straggler_every: 0,
            straggler_below: 0.8,
            tensorboard: false,
        }
    }
}

/// The most rows of a batch, micro-batches, and batches of a validation.
const MOST_ROWS: usize = 1 << 24;

impl TrainingConfig {
    /// What is wrong with the numbers.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first count of 0 or beyond its bound, rate that is not a positive number, negative decay,
    /// norm or lowest rate, or share outside [0, 1), and for local checkpoints without a folder that means the same on every node.
    pub fn check(&self) -> Result<()> {
        self.check_local_checkpoints()?;
        if self.patience > 0 && (self.validate_every == 0 || self.validation_batches == 0) {
            let (every, batches) = (self.validate_every, self.validation_batches);
            let found = format!(
                "{}, with training.validate_every = {every} and validation_batches = {batches}",
                self.patience
            );
            let needed = "validations during the run, or 0";
            return Err(Error::setting("training.patience", found, needed));
        }
        check_counts(
            "training",
            &[
                ("steps", self.steps as usize, 1..=usize::MAX),
                ("batch", self.batch, 1..=MOST_ROWS),
                ("micro_batches", self.micro_batches, 1..=MOST_ROWS),
                ("validation_batches", self.validation_batches, 0..=MOST_ROWS),
                ("sample_tokens", self.sample_tokens, 0..=MOST_TOKENS),
            ],
        )?;
        check_numbers(
            "training",
            &[
                ("dpo_beta", self.dpo_beta, Numbers::Positive),
                (
                    "dpo_label_smoothing",
                    self.dpo_label_smoothing,
                    Numbers::Share,
                ),
                ("learning_rate", self.learning_rate, Numbers::Positive),
                ("muon_rate", self.muon_rate, Numbers::Positive),
                ("adafactor_clip", self.adafactor_clip, Numbers::Positive),
                ("epsilon", self.epsilon, Numbers::Positive),
                ("loss_scale", self.loss_scale, Numbers::Positive),
                ("lowest_rate", self.lowest_rate, Numbers::NotNegative),
                ("weight_decay", self.weight_decay, Numbers::NotNegative),
                ("clip_norm", self.clip_norm, Numbers::NotNegative),
                ("min_delta", self.min_delta, Numbers::NotNegative),
                ("straggler_below", self.straggler_below, Numbers::Share),
                ("beta1", self.beta1, Numbers::Share),
                ("beta2", self.beta2, Numbers::Share),
                ("momentum", self.momentum, Numbers::Share),
                ("muon_momentum", self.muon_momentum, Numbers::Share),
                ("adafactor_decay", self.adafactor_decay, Numbers::Share),
            ],
        )
    }

    /// Steps from one local checkpoint to the next, and where nodes keep them; nothing if there are none.
    pub fn local_checkpoints(&self) -> Option<(u64, &Path)> {
        let dir = self.local_checkpoint_dir.as_deref();
        dir.map(|dir| (self.local_checkpoint_every, dir))
            .filter(|(every, _)| *every > 0)
    }

    /// Copies of what a rank writes that lie in the host's memory at a time: one for each kind of checkpoint.
    pub fn checkpoint_copies(&self) -> usize {
        1 + usize::from(self.local_checkpoints().is_some())
    }

    fn check_local_checkpoints(&self) -> Result<()> {
        let (key, dir) = ("training.local_checkpoint_dir", &self.local_checkpoint_dir);
        check_path(key, dir.as_deref())?;
        match dir {
            None if self.local_checkpoint_every > 0 => {
                let every = self.local_checkpoint_every;
                let found = format!("none, with training.local_checkpoint_every = {every}");
                Err(Error::setting(key, found, "a folder of every node"))
            }
            Some(dir) if !dir.is_absolute() => {
                let needed = "a path from the root, which is the same on every node";
                Err(Error::setting(key, dir.display(), needed))
            }
            _ => Ok(()),
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
        let adamw = || AdamW {
            rate,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
        };
        match self.optimiser {
            OptimiserKind::AdamW => Box::new(adamw()),
            OptimiserKind::AdamW8bit => Box::new(AdamW8bit(adamw())),
            OptimiserKind::Muon => Box::new(Muon {
                rate: Rate {
                    highest: self.muon_rate,
                    lowest: self.lowest_rate * self.muon_rate / self.learning_rate,
                    ..rate
                },
                momentum: self.muon_momentum,
                others: adamw(),
            }),
            OptimiserKind::Lion => Box::new(Lion {
                rate,
                beta1: self.beta1,
                beta2: self.beta2,
                weight_decay: self.weight_decay,
            }),
            OptimiserKind::Adafactor => Box::new(Adafactor {
                rate,
                decay: self.adafactor_decay,
                clip: self.adafactor_clip,
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
        /// Number of ranks; absent: that of the grid.
        pub ranks: Option<usize>,
        /// Ranks along each axis.
        pub grid: Degrees,
        /// Which axis varies fastest over the positions of the grid; `auto` chooses by the bytes of a step and the nodes.
        pub order: OrderChoice,
        /// Which rank sits at which position: neighbours on one node, or in the launcher's order.
        pub positions: Positions,
        /// Whether collectives of groups that span nodes run inside each node, across nodes, and back.
        pub hierarchical: Hierarchical,
        /// The machine of the run, by name or by file, for choices that depend on its links.
        pub machine: Option<String>,
        /// The order in which micro-batches pass through the stages. With `pipedream` and `pipedream-2bw`, a run has other numbers.
        pub schedule: ScheduleKind,
        /// The number of segments of the model in each part of the pipeline, from the first part to the last. Absent: the cut
        /// whose slowest part takes the least time, with its messages, and that fits the memory.
        pub stages: Option<Vec<usize>>,
        /// The collectives that run beside compute: `oar`, the all-reduce of a gradient of inputs beside the matmul of that of
        /// weights; `ors`, the reduce-scatter of gradients of weights; `oag`, the all-gather of the next layer's weights
        /// (`oag-backward`: in backward alone); `data`, the sum of gradients over replicas.
        pub overlap: OverlapNames,
        /// MiB of weights that may be gathered ahead of their use.
        pub gather_budget_mib: usize,
        /// Whether gathered weights stay from a layer's forward to its backward.
        pub keep_gathered: bool,
        /// Whether weights of a 16-bit type are gathered in f32, as in systems with f32 parameters under an automatic cast.
        pub gather_wide: bool,
        /// The type in which gradients travel, with 16-bit activations: over Z in 16 bits and over Data in f32, all in 16
        /// bits, or all in f32. The bits of every grid need f32.
        pub gradient_wire: GradientWire,
        /// Whether ranks of X hold runs of the vectors between layers, such as tokens, instead of copies of all (sequence
        /// parallelism).
        pub sequence_parallel: bool,
        /// How attention meets the keys and values of other ranks along Context: it gathers them, exchanges tokens for heads, which
        /// the ranks must then divide, or passes keys and values from rank to rank, beside compute; `ring:4` passes them between
        /// groups of four ranks that exchange heads.
        pub context_attention: ContextAttention,
        /// Largest bucket of gradients, in MiB.
        pub bucket_mib: usize,
        /// What replicas along Data hold in shards: nothing, the optimiser's state (ZeRO stage 1), or gradients too (stage 2).
        #[serde(alias = "sharded_optimiser")]
        pub sharding: Sharding,
        /// Number of threads with which each rank computes, on the CPU.
        pub threads: usize,
        /// Seconds that a rank waits for others before the run ends.
        pub timeout_s: f64,
        /// Whether ranks compare their calls on the host before each collective.
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
                context: 1,
                data: 1,
                pipeline: 2,
            },
            order: OrderChoice::Auto,
            positions: Positions::ByNode,
            hierarchical: Hierarchical::Auto,
            machine: None,
            schedule: ScheduleKind::default(),
            stages: None,
            overlap: OverlapNames(Overlap::ALL),
            gather_budget_mib: 256,
            keep_gathered: false,
            gather_wide: false,
            gradient_wire: GradientWire::Mixed,
            sequence_parallel: false,
            context_attention: ContextAttention::Gather,
            bucket_mib: 25,
            sharding: Sharding::None,
            threads: 1,
            timeout_s: 60.0,
            checked: false,
        }
    }
}

impl ParallelConfig {
    /// What is wrong with the numbers. Each rank of a process, and each of its threads, is a thread of the system.
    ///
    /// # Errors
    /// [`Error::Setting`] for a number of ranks or threads outside its bounds, and for ranks of Context that do not divide into
    /// those that exchange heads; as [`timeout`](ParallelConfig::timeout).
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("ranks", self.ranks.unwrap_or(1), 1..=1 << 24),
            ("threads", self.threads, 1..=1 << 12),
        ];
        check_counts("parallel", &counts)?;
        let (way, ranks) = (self.context_attention, self.grid.context);
        if !ranks.is_multiple_of(way.exchange(ranks)) {
            let found = format!("{way} on context={ranks}");
            let needed = "a number of ranks that exchange heads which divides those of context";
            return Err(Error::setting("parallel.context_attention", found, needed));
        }
        self.timeout().map(drop)
    }

    /// How long a rank waits for others.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is no time, or none that a clock can count.
    pub fn timeout(&self) -> Result<Duration> {
        let timeout = Duration::try_from_secs_f64(self.timeout_s).ok();
        timeout.filter(|timeout| !timeout.is_zero()).ok_or_else(|| {
            let (found, needed) = (self.timeout_s, "a number of seconds above 0");
            Error::setting("parallel.timeout_s", found, needed)
        })
    }
}
