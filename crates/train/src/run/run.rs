//! A complete run on one rank: steps, records, validation, checkpoints, a clean stop.

use super::{Observer, Started, Stop, Summary, trace};
use crate::{
    Config, Error, Result,
    batches::Batches,
    data::Tokenizer,
    metrics::{self, MetricsWriter, Record},
    trainer::{Attached, Callback, PeakMemory, StepDone, Trainer},
};
use bootstrap::World;
use std::{
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
    /// The checkpoint to resume from.
    pub resume: Option<PathBuf>,
    /// The step whose work trace.json shows completely, if any.
    pub trace_step: Option<u64>,
}

/// Trains on this rank until the last step, or until asked to stop.
///
/// # Errors
/// Whatever ends a run; see [`Error`].
pub fn run(
    world: &World,
    device: &Device,
    run: &Run,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Summary> {
    let begun = Instant::now();
    let context = run.config.context(world, device)?;
    let mut trainer = run.config.trainer(&context)?;
    if let Some(path) = &run.resume {
        trainer.resume(path)?;
    }
    let first_step = trainer.next_step();
    let records = run.open_records(world, first_step)?;
    if world.rank() == 0 {
        observer.started(&run.started(first_step, trainer.num_parameters()));
    }
    let mut session = Session {
        run,
        observer,
        stop,
        records,
        last: None,
        checkpoint: None,
    };
    trainer.fit(&*run.data, run.config.training.steps, &mut session)?;
    session.summary(&trainer, begun)
}

struct Session<'a> {
    run: &'a Run,
    observer: &'a dyn Observer,
    stop: &'a Stop,
    // On rank 0.
    records: Option<MetricsWriter>,
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

    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<()> {
        let (step, training) = (done.result.step, &self.run.config.training);
        if self.run.trace_step == Some(step) {
            trace::write(trainer.context(), &self.run.dir, step)?;
        }
        let record = Record {
            step: step + 1,
            loss: done.result.loss,
            grad_norm: done.result.gradient_norm,
            lr: done.result.rate,
            tokens_per_s: self.run.tokens_per_step() as f64 / done.seconds,
            step_s: done.seconds,
            val_loss: None,
            loss_scale: trainer.adapted_loss_scale().map(|_| done.result.loss_scale),
        };
        self.note(trainer, record, done.is_last)?;
        if done.is_last || is_due(step + 1, training.checkpoint_every) {
            self.checkpoint = Some(self.checkpoint(trainer)?);
        }
        Ok(())
    }
}

impl Session<'_> {
    fn note(&mut self, trainer: &Trainer, mut record: Record, is_last: bool) -> Result<()> {
        if is_last || is_due(record.step, self.run.config.training.validate_every) {
            let world = trainer.context().world();
            world.beat(&format!("validation after step {}", record.step));
            record.val_loss = Some(trainer.validate(&*self.run.data)?);
        }
        if let Some(records) = &mut self.records {
            records.write(&record)?;
            self.observer.step(&record);
        }
        self.last = Some(record);
        Ok(())
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
            self.plot()?;
            self.observer.checkpoint(&path);
        }
        Ok(path)
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
        let validation_loss = match last.as_ref().and_then(|record| record.val_loss) {
            Some(loss) => loss,
            None => trainer.validate(&*self.run.data)?,
        };
        let context = trainer.context();
        Ok(Summary {
            steps,
            loss: last.map_or(f64::NAN, |record| record.loss),
            validation_loss,
            seconds: begun.elapsed().as_secs_f64(),
            stopped: steps < self.run.config.training.steps,
            checkpoint: self.checkpoint,
            peak: PeakMemory::of_all(context.world(), context.device())?,
        })
    }
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

impl Run {
    /// Creates the run's folder with its configuration; refuses a folder that already holds a run, unless that
    /// run is resumed.
    /// # Errors
    /// [`Error::RunExists`] for a folder in use; [`Error::File`] if it cannot be written.
    pub fn prepare(&self) -> Result<()> {
        let config = self.dir.join("config.toml");
        if self.resume.is_none() && self.dir.join("metrics.jsonl").exists() {
            let path = self.dir.clone();
            return Err(Error::RunExists { path });
        }
        std::fs::create_dir_all(self.dir.join("checkpoints")).map_err(Error::file(&self.dir))?;
        std::fs::write(&config, self.config.to_toml()?).map_err(Error::file(&config))
    }

    // What a checkpoint stores about the run.
    fn attached(&self) -> Result<Attached> {
        let refuse = |error: serde_json::Error| {
            Error::setting("checkpoint", error, "values that JSON can hold")
        };
        Ok(Attached {
            model: serde_json::to_value(&self.config.model).map_err(refuse)?,
            config: serde_json::to_value(&self.config).map_err(refuse)?,
            tokenizer: serde_json::to_value(&self.tokenizer).map_err(refuse)?,
        })
    }

    fn open_records(&self, world: &World, first_step: u64) -> Result<Option<MetricsWriter>> {
        if world.rank() > 0 {
            return Ok(None);
        }
        let path = self.dir.join("metrics.jsonl");
        Ok(Some(match self.resume {
            Some(_) => MetricsWriter::resume(&path, first_step)?,
            None => MetricsWriter::create(&path)?,
        }))
    }

    fn started(&self, first_step: u64, num_parameters: usize) -> Started {
        Started {
            first_step,
            num_steps: self.config.training.steps,
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
