//! A complete run on one rank: its inputs, its beginning and its end.

use super::{
    BestValidation, Observer, Started, Stop, Summary, same, session::Session, settle_bits,
};
use crate::{
    Config, Result,
    batches::Batches,
    checkpoint::Reader,
    config::BitsChoice,
    data::Tokenizer,
    metrics::{self, PeakByKind, Record},
    trainer::{Attached, StepDone, Trainer, Weights, disk_work},
};
use bootstrap::World;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use tensor::Device;

/// The inputs of a run besides its ranks.
#[derive(Clone)]
pub struct Run {
    /// The configuration of the run.
    pub config: Config,
    /// The data, shared by all ranks.
    pub data: Arc<dyn Batches>,
    /// Numbers of training and validation tokens, if the data is text.
    pub num_tokens: Option<[usize; 2]>,
    /// How text becomes tokens, if the data is text.
    pub tokenizer: Option<Tokenizer>,
    /// The run's folder.
    pub dir: PathBuf,
    /// Where to resume from; `None` begins with step 1.
    pub resume: Option<Resume>,
    /// The weights with which a new run begins, instead of random ones.
    pub init: Option<Arc<dyn Weights>>,
    /// Whether a new run may take a folder with records of one that ended before its first checkpoint.
    pub restart: bool,
    /// The step whose work trace.json shows completely, if any.
    pub trace_step: Option<u64>,
    /// The flop/s that all devices together could reach in the run's precision, if that is known: of it the records state a
    /// fraction.
    pub peak_flop_per_s: Option<f64>,
}

/// From where and how a run is resumed.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The checkpoint.
    pub checkpoint: PathBuf,
    /// Whether settings and data may differ in more than [`FREE_KEYS`](super::resume::FREE_KEYS) from those of the checkpoint.
    pub any_change: bool,
}

/// Trains on this rank until the last step, or until asked to stop.
///
/// # Errors
/// Those of [`settle_bits`], [`Config::context`], [`Config::trainer`], [`Trainer::resume`], [`Trainer::fit`], [`Trainer::validate`] and
/// [`Trainer::save_with`]; of data of pairs also those of [`Trainer::reference`]. A checkpoint that is being written is completed before any other error is returned. Records,
/// plots and traces that cannot be written end no run: the observer learns of them.
pub fn run(
    world: &World,
    device: &Device,
    run: &Run,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Summary> {
    let begun = Instant::now();
    let run = &run.settled(device)?.with_stored_reference()?;
    let mut trainer = begin(world, device, run)?;
    let run = &run.with_reference(&trainer)?;
    disk_work::all(world, || match world.rank() {
        0 => run.write_config(),
        _ => Ok(()),
    })?;
    let first_step = trainer.next_step();
    if world.rank() == 0 {
        let steps = run.config.training.steps;
        observer.started(&run.started(first_step, steps, &trainer));
    }
    let mut session = Session::open(run, (observer, stop), &trainer)?;
    let steps = session.steps();
    let trained = trainer.fit(&*run.data, steps, &mut session);
    let checkpoints = session.complete();
    trained?;
    checkpoints?;
    session.finish_copies(&trainer)?;
    session.summary(&trainer, begun)
}

/// The trainer with which a run begins: a new one, perhaps with other weights, or that of the checkpoint from which it resumes.
/// Collective.
///
/// # Errors
/// [`Error::Unequal`](crate::Error::Unequal) if ranks differ in what they run; those of [`Config::context`], [`Config::trainer`],
/// [`Trainer::resume`] and [`Trainer::load_weights`].
pub(super) fn begin(world: &World, device: &Device, run: &Run) -> Result<Trainer> {
    same::check(world, run)?;
    let context = run.config.context(world, device)?;
    let mut trainer = run.config.trainer(&context)?;
    match (&run.resume, &run.init) {
        (Some(from), _) => trainer.resume(&from.checkpoint)?,
        (None, Some(weights)) => trainer.load_weights(&**weights, &[])?,
        (None, None) => {}
    }
    Ok(trainer)
}

impl Run {
    // The run with its bits settled. The program has done so once for all ranks; the rank of another program does it here.
    pub(super) fn settled(&self, device: &Device) -> Result<Run> {
        let mut run = self.clone();
        if run.config.training.reproducible == BitsChoice::Auto {
            let from = self.resume.as_ref();
            let from = from
                .map(|from| Reader::open(&from.checkpoint))
                .transpose()?;
            settle_bits(&mut run.config, device.capabilities(), from.as_ref())?;
        }
        Ok(run)
    }

    // The lowest validation loss before the first step, of a run with patience that is resumed.
    pub(super) fn best_so_far(&self) -> Result<Option<BestValidation>> {
        let resumed = self.resume.as_ref();
        let resumed = resumed.filter(|_| self.config.training.patience > 0);
        let Some(from) = resumed else {
            return Ok(None);
        };
        BestValidation::of(&Reader::open(&from.checkpoint)?)
    }

    // What a checkpoint stores about the run.
    pub(super) fn attached(&self) -> Result<Attached> {
        Ok(Attached {
            data: self.data.fingerprint(),
            ..Attached::of(&self.config, self.tokenizer.as_ref())?
        })
    }

    // The record of a step, before any validation; its session counts tokens and flop.
    pub(super) fn record(&self, trainer: &Trainer, done: &StepDone) -> Record {
        Record {
            step: done.result.step + 1,
            loss: done.result.loss,
            grad_norm: done.result.gradient_norm,
            lr: done.result.rate,
            tokens_per_s: self.tokens_per_step() as f64 / done.seconds,
            step_s: done.seconds,
            tokens: 0,
            time: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
            val_loss: None,
            val_losses: BTreeMap::new(),
            preferences: done.result.preferences,
            val_preferences: None,
            digest: trainer.digest().map(|digest| digest.digest.clone()),
            loss_scale: trainer.adapted_loss_scale().map(|_| done.result.loss_scale),
            flop_per_s: None,
            mfu: None,
            memory_bytes: Some(done.memory.in_use),
            peak_memory_bytes: Some(done.memory.peak.bytes as u64),
            peak: Some(PeakByKind::from(&done.memory.peak)),
        }
    }

    pub(super) fn started(&self, first_step: u64, num_steps: u64, trainer: &Trainer) -> Started {
        Started {
            first_step,
            num_steps,
            num_parameters: trainer.num_parameters(),
            num_trained: trainer.num_trained(),
            num_tokens: self.num_tokens,
            tokens_per_step: self.tokens_per_step(),
        }
    }

    // Flop of a step as the field counts them, without what is recomputed.
    pub(super) fn flop_per_step(&self) -> Result<f64> {
        Ok(self.config.flop_per_row(false)? * self.config.training.batch as f64)
    }

    // For a model that reads no text, rows.
    pub(super) fn tokens_per_step(&self) -> usize {
        let per_row = self.config.model.text().map_or(1, |text| text.context);
        self.config.training.batch * per_row
    }

    // Tokens of the first steps, whose batches may have had another size, by the last of their records.
    pub(super) fn tokens_before(&self, step: u64) -> u64 {
        let records = metrics::read::<Record>(&self.dir.join("metrics.jsonl")).unwrap_or_default();
        let last = records.iter().rev().find(|record| record.step <= step);
        match last.filter(|record| record.tokens > 0) {
            Some(last) => last.tokens + (step - last.step) * self.tokens_per_step() as u64,
            None => step * self.tokens_per_step() as u64,
        }
    }

    pub(super) fn data_name(&self) -> String {
        if !self.config.data.mixture.is_empty() {
            return format!("a mixture of {}", self.config.data.mixture.len());
        }
        let path = self.config.data.path.as_deref();
        path.and_then(Path::file_name)
            .map_or("the Rust sources here".into(), |name| {
                name.to_string_lossy().into_owned()
            })
    }
}
