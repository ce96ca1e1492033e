//! Who is told of a run's progress, and who may end it.

use crate::{metrics::Record, trainer::PeakMemory};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

/// Told of a run's progress, on rank 0.
pub trait Observer: Send + Sync {
    /// The run begins.
    fn started(&self, _started: &Started) {}
    /// A step is done.
    fn step(&self, _record: &Record) {}
    /// A checkpoint is whole.
    fn checkpoint(&self, _path: &std::path::Path) {}
}

/// What is known when a run begins.
#[derive(Clone, Debug)]
pub struct Started {
    /// The step that comes first: 0, or where a resumed run goes on.
    pub first_step: u64,
    /// Steps in all.
    pub num_steps: u64,
    /// Weights of the model.
    pub num_parameters: usize,
    /// Tokens to train on and to validate on, where the data is text.
    pub num_tokens: Option<[usize; 2]>,
    /// Tokens of a step; where the data is no text, rows.
    pub tokens_per_step: usize,
}

/// Asks a run to end after the step that it is in, with a checkpoint.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks for it. May be called from a signal handler.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a run ended; the same on every rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Steps done in all.
    pub steps: u64,
    /// Loss of the last step.
    pub loss: f64,
    /// Validation loss after it.
    pub validation_loss: f64,
    /// Wall-clock seconds of training in this run, validation and checkpoints included.
    pub seconds: f64,
    /// Whether it was asked to end early.
    pub stopped: bool,
    /// The last checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// The most that tensors held on the device that held the most.
    pub peak: PeakMemory,
}
