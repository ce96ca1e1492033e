//! A complete run on one rank: steps, records, validation, checkpoints, a clean stop.

use super::{Observer, Started, Stop, Summary, same, trace};
use crate::{
    Config, Error, Result,
    batches::Batches,
    data::Tokenizer,
    digest::StepDigest,
    metrics::{self, LineWriter, Record, Stepped},
    trainer::{Attached, Callback, PeakMemory, StepDone, Trainer, disk_work},
};
use bootstrap::World;
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
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
    /// Whether a new run may take a folder with records of one that ended before its first checkpoint.
    pub restart: bool,
    /// The step whose work trace.json shows completely, if any.
    pub trace_step: Option<u64>,
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
/// Those of [`Config::context`], [`Config::trainer`], [`Trainer::resume`], [`Trainer::fit`], [`Trainer::validate`] and
/// [`Trainer::save_with`]. Records, plots and traces that cannot be written end no run: the observer learns of them.
pub fn run(
    world: &World,
    device: &Device,
    run: &Run,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Summary> {
    let begun = Instant::now();
    let mut trainer = begin(world, device, run)?;
    disk_work::all(world, || match world.rank() {
        0 => run.write_config(),
        _ => Ok(()),
    })?;
    let first_step = trainer.next_step();
    if world.rank() == 0 {
        let steps = run.config.training.steps;
        observer.started(&run.started(first_step, steps, trainer.num_parameters()));
    }
    let mut session = Session {
        run,
        observer,
        stop,
        records: None,
        digests: None,
        has_told_copies: false,
        last: None,
        checkpoint: None,
    };
    session.open_records(world, first_step)?;
    trainer.fit(&*run.data, run.config.training.steps, &mut session)?;
    session.summary(&trainer, begun)
}

/// The trainer with which a run begins: a new one, or that of the checkpoint from which it resumes. Collective.
///
/// # Errors
/// [`Error::Unequal`] if ranks differ in what they run; those of [`Config::context`], [`Config::trainer`] and
/// [`Trainer::resume`].
pub(super) fn begin(world: &World, device: &Device, run: &Run) -> Result<Trainer> {
    same::check(world, run)?;
    let context = run.config.context(world, device)?;
    let mut trainer = run.config.trainer(&context)?;
    if let Some(from) = &run.resume {
        trainer.resume(&from.checkpoint)?;
    }
    Ok(trainer)
}

struct Session<'a> {
    run: &'a Run,
    observer: &'a dyn Observer,
    stop: &'a Stop,
    // On rank 0, unless the disk refused them.
    records: Option<LineWriter<Record>>,
    digests: Option<LineWriter<StepDigest>>,
    has_told_copies: bool,
    last: Option<Record>,
    checkpoint: Option<PathBuf>,
}

impl Callback for Session<'_> {
    fn before_step(&mut self, trainer: &mut Trainer) -> Result<()> {
        let (context, step) = (trainer.context(), trainer.next_step());
        if self.run.trace_step == Some(step) {
            tensor::trace::start(context.device());
        }
        context.world().beat(&format!("step {}", step + 1));
        Ok(())
    }

    fn wants_stop(&mut self) -> bool {
        self.stop.asked()
    }

    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<ControlFlow<()>> {
        let (step, training) = (done.result.step, &self.run.config.training);
        if self.run.trace_step == Some(step) {
            let written = trace::write(trainer.context(), &self.run.dir, step);
            self.tolerate(trainer.context().world(), written)?;
        }
        let record = Record {
            step: step + 1,
            loss: done.result.loss,
            grad_norm: done.result.gradient_norm,
            lr: done.result.rate,
            tokens_per_s: self.run.tokens_per_step() as f64 / done.seconds,
            step_s: done.seconds,
            val_loss: None,
            digest: trainer.digest().map(|digest| digest.digest.clone()),
            loss_scale: trainer.adapted_loss_scale().map(|_| done.result.loss_scale),
        };
        self.write_digest(trainer)?;
        let is_stopped = self.note(trainer, record, done.is_last)?;
        let is_stopped = self.note(trainer, self.run.record(trainer, done), done.is_last)?;
        if done.is_last || is_stopped || is_due(step + 1, training.checkpoint_every) {
            self.checkpoint = Some(self.checkpoint(trainer)?);
        }
        Ok(match is_stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

impl Session<'_> {
    // Returns whether the run is to stop early. It then has little time: its checkpoint comes first, and it validates
    // when it is resumed.
    fn note(&mut self, trainer: &Trainer, mut record: Record, is_last: bool) -> Result<bool> {
        let mut is_stopped = is_last && record.step < self.run.config.training.steps;
        let is_due = is_last || is_due(record.step, self.run.config.training.validate_every);
        if is_due && !is_stopped {
            trainer
                .context()
                .world()
                .beat(&format!("validation after step {}", record.step));
            record.val_loss = trainer.validate_until(&*self.run.data, || self.stop.asked())?;
            is_stopped = record.val_loss.is_none() && !is_last;
        }
        let world = trainer.context().world();
        if let Some(Err(error)) = self.records.as_mut().map(|records| records.write(&record)) {
            self.records = None;
            self.tolerate(world, Err(error.into()))?;
        }
        if world.rank() == 0 {
            self.observer.step(&record);
        }
        self.last = Some(record);
        Ok(is_stopped)
    }

    fn checkpoint(&self, trainer: &Trainer) -> Result<PathBuf> {
        let world = trainer.context().world();
        world.beat(&format!("checkpoint of step {}", trainer.next_step()));
        let (dir, keep) = (
            self.run.dir.join("checkpoints"),
            self.run.config.training.keep_checkpoints,
        );
        let path = trainer.save_with(&dir, keep, &self.run.attached()?)?;
        if world.rank() == 0 {
            self.observer.checkpoint(&path);
            self.tolerate(world, self.plot())?;
        }
        Ok(path)
    }

    fn open_records(&mut self, world: &World, first_step: u64) -> Result<()> {
        if world.rank() == 0 {
            self.records = self.open(world, "metrics.jsonl", first_step)?;
            let digests = self.run.dir.join("digests.jsonl");
            if self.run.config.training.digest_every > 0 || digests.exists() {
                self.digests = self.open(world, "digests.jsonl", first_step)?;
            }
        }
        Ok(())
    }

    fn open<T: Stepped>(
        &self,
        world: &World,
        file: &str,
        first_step: u64,
    ) -> Result<Option<LineWriter<T>>> {
        let path = self.run.dir.join(file);
        let opened = match self.run.resume {
            Some(_) => LineWriter::resume(&path, first_step),
            None => LineWriter::create(&path).map(|lines| (lines, None)),
        };
        let (lines, fault) = match opened {
            Ok((lines, fault)) => (Some(lines), fault),
            Err(error) => (None, Some(error)),
        };
        self.tolerate(world, fault.map_or(Ok(()), |fault| Err(fault.into())))?;
        Ok(lines)
    }

    fn write_digest(&mut self, trainer: &Trainer) -> Result<()> {
        let Some(digest) = trainer.digest() else {
            return Ok(());
        };
        let written = self.digests.as_mut().map(|digests| digests.write(digest));
        if let Some(Err(error)) = written {
            self.digests = None;
            self.tolerate(trainer.context().world(), Err(error.into()))?;
        }
        if !std::mem::replace(&mut self.has_told_copies, true) && self.digests.is_some() {
            self.observer.digest(digest);
        }
        Ok(())
    }

    // A run can do without its records, plots and traces: an error in one of these files is reported, on rank 0. Any other
    // error, such as that of a collective, is returned.
    fn tolerate(&self, world: &World, result: Result<()>) -> Result<()> {
        match result {
            Err(
                error
                @ (Error::Metrics(_) | Error::File { .. } | Error::Io(_) | Error::Peer { .. }),
            ) => {
                if world.rank() == 0 {
                    self.observer.trouble(&error);
                }
                Ok(())
            }
            other => other,
        }
    }

    fn plot(&self) -> Result<()> {
        let records = metrics::read(&self.run.dir.join("metrics.jsonl"))?;
        let grid = self.run.config.parallel.grid;
        let title = format!("{}, grid {grid}", self.run.data_name());
        Ok(metrics::loss_plot(
            &self.run.dir.join("loss.svg"),
            &records,
            &title,
        )?)
    }

    fn summary(self, trainer: &Trainer, begun: Instant) -> Result<Summary> {
        let (steps, last) = (trainer.next_step(), self.last);
        let stopped = steps < self.run.config.training.steps;
        let validation_loss = match last.as_ref().and_then(|record| record.val_loss) {
            None if !stopped => trainer.validate_until(&*self.run.data, || self.stop.asked())?,
            known => known,
        };
        let context = trainer.context();
        Ok(Summary {
            steps,
            loss: last.map_or(f64::NAN, |record| record.loss),
            validation_loss,
            seconds: begun.elapsed().as_secs_f64(),
            stopped,
            checkpoint: self.checkpoint,
            peak: PeakMemory::of_all(context.world(), context.device())?,
        })
    }
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

impl Run {
    // What a checkpoint stores about the run.
    pub(super) fn attached(&self) -> Result<Attached> {
        let refuse = |error: serde_json::Error| {
            Error::setting("checkpoint", error, "values that JSON can hold")
        };
        Ok(Attached {
            model: serde_json::to_value(&self.config.model).map_err(refuse)?,
            config: serde_json::to_value(&self.config).map_err(refuse)?,
            tokenizer: serde_json::to_value(&self.tokenizer).map_err(refuse)?,
            data: self.data.fingerprint(),
        })
    }

    // The record of a step, before any validation.
    pub(super) fn record(&self, trainer: &Trainer, done: &StepDone) -> Record {
        Record {
            step: done.result.step + 1,
            loss: done.result.loss,
            grad_norm: done.result.gradient_norm,
            lr: done.result.rate,
            tokens_per_s: self.tokens_per_step() as f64 / done.seconds,
            step_s: done.seconds,
            val_loss: None,
            loss_scale: trainer.adapted_loss_scale().map(|_| done.result.loss_scale),
        }
    }

    pub(super) fn started(
        &self,
        first_step: u64,
        num_steps: u64,
        num_parameters: usize,
    ) -> Started {
        Started {
            first_step,
            num_steps,
            num_parameters,
            num_tokens: self.num_tokens,
            tokens_per_step: self.tokens_per_step(),
        }
    }

    // For a model that reads no text, rows.
    fn tokens_per_step(&self) -> usize {
        let per_row = self.config.model.text().map_or(1, |text| text.context);
        self.config.training.batch * per_row
    }

    fn data_name(&self) -> String {
        let path = self.config.data.path.as_deref();
        path.and_then(Path::file_name)
            .map_or("the Rust sources here".into(), |name| {
                name.to_string_lossy().into_owned()
            })
    }
}
