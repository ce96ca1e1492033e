//! The section `[training]`.

use super::{
    BitsChoice, MemoryMode, Numbers, ObjectiveKind, OptimiserKind, Precision, check_counts,
    check_numbers, check_path,
};
use crate::{
    Error, Result,
    generate::MOST_TOKENS,
    optimiser::{Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, Rate, RateSchedule, Sgd},
};
use parallel::memory::Segments;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
