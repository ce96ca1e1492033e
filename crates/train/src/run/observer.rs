//! Who observes a run's progress, and what may end it.

use super::{
    AxisTraffic, BestValidation, SampleRecord, SlowRank, SpeedRecord, StoreCopy, StoreReport,
};
use crate::{
    Error,
    digest::StepDigest,
    metrics::Record,
    trainer::{CheckpointDone, PeakMemory},
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Receives a run's progress, on rank 0.
pub trait Observer: Send + Sync {
    /// The run begins.
    fn started(&self, _started: &Started) {}
    /// A step is done.
    fn step(&self, _record: &Record) {}
    /// The first digest, which states how many copies of what are compared.
    fn digest(&self, _digest: &StepDigest) {}
    /// The model has written a text between two steps; the one at the end is in the [`Summary`].
    fn sample(&self, _sample: &SampleRecord) {}
    /// A rank has been slow in [`PATIENCE`](super::PATIENCE) measurements in a row; told once, until it is slow anew.
    fn straggler(&self, _rank: &SlowRank, _record: &SpeedRecord) {}
    /// A checkpoint is complete.
    fn checkpoint(&self, _done: &CheckpointDone) {}
    /// A local checkpoint is complete on all nodes.
    fn local_checkpoint(&self, _done: &CheckpointDone) {}
    /// A checkpoint was copied to the run's store.
    fn stored(&self, _copy: &StoreCopy) {}
    /// The steps are done, and the run waits for the last copies to its store, not longer than `most`.
    fn waits_for_store(&self, _url: &str, _most: Duration) {}
    /// Records, a plot, a trace, a copy in a store or a local checkpoint could not be written or read. The run continues without it.
    fn trouble(&self, _error: &Error) {}
}

/// The facts known when a run begins.
#[derive(Clone, Debug)]
pub struct Started {
    /// The first step: 0, or the step at which a resumed run continues.
    pub first_step: u64,
    /// Steps in all.
    pub num_steps: u64,
    /// Number of weights of the model.
    pub num_parameters: usize,
    /// Those of them that are trained.
    pub num_trained: usize,
    /// Numbers of training and validation tokens, if the data is text.
    pub num_tokens: Option<[usize; 2]>,
    /// Tokens per step; if the data is not text, rows per step.
    pub tokens_per_step: usize,
}

/// Asks a run to end after its current step, with a checkpoint.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks the run to stop. May be called from a signal handler.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a run ended; the same on every rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of steps done in all.
    pub steps: u64,
    /// Loss of the last step.
    pub loss: f64,
    /// Validation loss after the last step; a run that was asked to end early does not validate.
    pub validation_loss: Option<f64>,
    /// Wall-clock seconds of training in this run, validation and checkpoints included.
    pub seconds: f64,
    /// Whether the run was asked to end early.
    pub stopped: bool,
    /// The lowest validation loss, if the run ended early because its validations found no lower one.
    pub out_of_patience: Option<BestValidation>,
    /// What the model wrote after the last step; a run that was asked to end early writes nothing.
    pub sample: Option<String>,
    /// The last checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// What was copied to the run's store, if it has one.
    pub stored: Option<StoreReport>,
    /// The most that tensors held on any one device, and copies for checkpoints on the host.
    pub peak: PeakMemory,
    /// What the collectives of one step move: of the third step after the start, or of the last if the run does fewer.
    pub traffic: Vec<AxisTraffic>,
}
