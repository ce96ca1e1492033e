//! A whole run on one rank: steps, records, validation, checkpoints, a clean stop.

use super::{Observer, PeakMemory, Started, Stop, Summary, Trainer, load, save};
use crate::{
    Config, Error, Result,
    checkpoint::Reader,
    data::{Dataset, Tokenizer},
    metrics::{self, MetricsWriter, Record},
};
use bootstrap::{Launcher, World};
use parallel::Context;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Instant,
};
use tensor::{Device, trace};

/// What a run is made of besides its ranks.
#[derive(Clone)]
pub struct Run {
    /// What it is asked to be.
    pub config: Config,
    /// The data, shared by all ranks.
    pub data: Dataset,
    /// How text becomes tokens.
    pub tokenizer: Tokenizer,
    /// The run's folder.
    pub dir: PathBuf,
    /// The checkpoint to go on from.
    pub resume: Option<PathBuf>,
    /// The step of which trace.json shows every piece of work, if any.
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
    let grid = run.config.grid_on(world)?;
    let context = Context::new(world.clone(), grid, device.clone(), run.config.settings())?;
    run.config
        .machine()?
        .into_iter()
        .for_each(|machine| context.describe_machine(machine));
    let trainer = Trainer::new(&context, &run.config)?;
    let mut session = Session {
        run,
        context,
        trainer,
        records: None,
        last: None,
    };
    let first_step = session.resume()?;
    session.open_records(first_step)?;
    if world.rank() == 0 {
        observer.started(&session.started(first_step));
    }
    session.steps(first_step, observer, stop)
}

struct Session<'a> {
    run: &'a Run,
    context: Context,
    trainer: Trainer,
    // On rank 0.
    records: Option<MetricsWriter>,
    last: Option<Record>,
}

impl Session<'_> {
    fn resume(&mut self) -> Result<u64> {
        let Some(path) = &self.run.resume else {
            return Ok(0);
        };
        let reader = Reader::open(path)?;
        if self.context.world().rank() == 0 {
            reader.verify()?;
        }
        load(&mut self.trainer, &reader, true)?;
        Ok(reader.step())
    }

    fn open_records(&mut self, first_step: u64) -> Result<()> {
        if self.context.world().rank() > 0 {
            return Ok(());
        }
        let path = self.run.dir.join("metrics.jsonl");
        self.records = Some(match self.run.resume {
            Some(_) => MetricsWriter::resume(&path, first_step)?,
            None => MetricsWriter::create(&path)?,
        });
        Ok(())
    }

    fn started(&self, first_step: u64) -> Started {
        Started {
            first_step,
            num_steps: self.run.config.training.steps,
            num_parameters: self.run.config.model.num_parameters(),
            num_training_tokens: self.run.data.num_training_tokens(),
            num_validation_tokens: self.run.data.num_validation_tokens(),
            tokens_per_step: self.tokens_per_step(),
        }
    }

    fn tokens_per_step(&self) -> usize {
        self.run.config.training.batch * self.run.config.model.context
    }

    fn steps(&mut self, first_step: u64, observer: &dyn Observer, stop: &Stop) -> Result<Summary> {
        let begun = Instant::now();
        let steps = self.run.config.training.steps;
        let mut stopped = false;
        let mut done = first_step;
        let mut checkpoint = None;
        while done < steps && !stopped {
            let record = self.step(done)?;
            done += 1;
            stopped = self.agreed_to_stop(stop)? && done < steps;
            self.note(record, done == steps || stopped, observer)?;
            if self.is_due(done, self.run.config.training.checkpoint_every)
                || done == steps
                || stopped
            {
                checkpoint = Some(self.checkpoint(done, observer)?);
            }
        }
        self.summary(begun, done, stopped, checkpoint)
    }

    fn step(&mut self, step: u64) -> Result<Record> {
        let traced = self.run.trace_step == Some(step);
        if traced {
            trace::start(self.context.device());
        }
        self.context.world().beat(&format!("step {}", step + 1));
        let begun = Instant::now();
        let result = self.trainer.step(&self.run.data, step)?;
        let seconds = begun.elapsed().as_secs_f64();
        if traced {
            self.write_trace(step)?;
        }
        Ok(Record {
            step: step + 1,
            loss: result.loss,
            grad_norm: result.gradient_norm,
            lr: result.rate,
            tokens_per_s: self.tokens_per_step() as f64 / seconds,
            step_s: seconds,
            val_loss: None,
            loss_scale: self
                .trainer
                .loss_scale
                .adapts()
                .then_some(result.loss_scale),
        })
    }

    fn note(&mut self, mut record: Record, ends: bool, observer: &dyn Observer) -> Result<()> {
        if ends || self.is_due(record.step, self.run.config.training.validate_every) {
            self.context
                .world()
                .beat(&format!("validation after step {}", record.step));
            record.val_loss = Some(self.trainer.validate(&self.run.data)?);
        }
        if let Some(records) = &mut self.records {
            records.write(&record)?;
            observer.step(&record);
        }
        self.last = Some(record);
        Ok(())
    }

    fn checkpoint(&self, step: u64, observer: &dyn Observer) -> Result<PathBuf> {
        self.context
            .world()
            .beat(&format!("checkpoint of step {step}"));
        let (dir, keep) = (
            self.run.dir.join("checkpoints"),
            self.run.config.training.keep_checkpoints,
        );
        let path = save(&self.trainer, &self.run.tokenizer, &dir, step, keep)?;
        if self.context.world().rank() == 0 {
            self.plot()?;
            observer.checkpoint(&path);
        }
        Ok(path)
    }

    fn plot(&self) -> Result<()> {
        let records = metrics::read(&self.run.dir.join("metrics.jsonl"))?;
        let title = format!(
            "{}, grid {}",
            self.run.data_name(),
            self.run.config.parallel.grid
        );
        Ok(metrics::loss_plot(
            &self.run.dir.join("loss.svg"),
            &records,
            &title,
        )?)
    }

    // Asked on any rank, decided by all at the same step.
    fn agreed_to_stop(&self, stop: &Stop) -> Result<bool> {
        Ok(self.context.world().everyone().any(stop.asked())?)
    }

    fn is_due(&self, step: u64, every: u64) -> bool {
        every > 0 && step.is_multiple_of(every)
    }

    fn summary(
        &mut self,
        begun: Instant,
        steps: u64,
        stopped: bool,
        checkpoint: Option<PathBuf>,
    ) -> Result<Summary> {
        let last = self.last.take();
        let validation_loss = match last.as_ref().and_then(|record| record.val_loss) {
            Some(loss) => loss,
            None => self.trainer.validate(&self.run.data)?,
        };
        Ok(Summary {
            steps,
            loss: last.map_or(f64::NAN, |record| record.loss),
            validation_loss,
            seconds: begun.elapsed().as_secs_f64(),
            stopped,
            checkpoint,
            peak: PeakMemory::of_all(self.context.world(), self.context.device())?,
        })
    }

    // One file from all ranks that run: each writes its own, and rank 0 puts them together.
    fn write_trace(&self, step: u64) -> Result<()> {
        let (rank, ahead_us) = (self.context.world().rank(), self.clock_ahead_us()?);
        let part = format!("trace-{rank}.json");
        let mut writer = metrics::trace::TraceWriter::create(&self.run.dir.join(&part))?;
        for span in trace::finish(self.context.device())? {
            let out = metrics::trace::Span::new(
                rank,
                &span.stream,
                span.name,
                span.start_us - ahead_us,
                span.duration_us,
            );
            writer.span(
                &out.with("bytes", span.bytes as f64)
                    .with("step", step as f64),
            )?;
        }
        writer.finish()?;
        let mut parts = self
            .context
            .world()
            .everyone()
            .all_gather(part.as_bytes())?;
        if rank == 0 {
            // A rank that stands for others is told once for each of them.
            let mut seen = HashSet::new();
            parts.retain(|part| seen.insert(part.clone()));
            let path = |part: &Vec<u8>| self.run.dir.join(&*String::from_utf8_lossy(part));
            let parts: Vec<PathBuf> = parts.iter().map(path).collect();
            metrics::trace::merge(&parts, &self.run.dir.join("trace.json"))?;
            parts
                .iter()
                .try_for_each(|path| std::fs::remove_file(path).map_err(Error::file(path)))?;
        }
        Ok(())
    }

    // By how much the clock of this rank's device is ahead of rank 0's: processes have clocks of their own. All look at
    // them as they leave a barrier, of which the messages' time is the error.
    fn clock_ahead_us(&self) -> Result<f64> {
        let world = self.context.world();
        if world.launcher() == Launcher::Local {
            return Ok(0.0);
        }
        world.everyone().barrier()?;
        let now = self.context.device().compute().record()?;
        now.synchronize()?;
        let own = now.time_us()?.unwrap_or(0.0);
        let first = world.everyone().broadcast(0, &own.to_le_bytes())?;
        Ok(own - first.try_into().map_or(own, f64::from_le_bytes))
    }
}

impl Run {
    /// Makes the run's folder with its configuration; refuses one that holds a run already, unless that is resumed.
    ///
    /// # Errors
    /// [`Error::Config`] for a folder in use; [`Error::File`] when it cannot be written.
    pub fn prepare(&self) -> Result<()> {
        let config = self.dir.join("config.toml");
        if self.resume.is_none() && self.dir.join("metrics.jsonl").exists() {
            let dir = self.dir.display();
            return Err(Error::Config(format!(
                "{dir}: holds a run already; needs another --out, or --resume {dir}"
            )));
        }
        std::fs::create_dir_all(self.dir.join("checkpoints")).map_err(Error::file(&self.dir))?;
        std::fs::write(&config, self.config.to_toml()?).map_err(Error::file(&config))
    }

    fn data_name(&self) -> String {
        let path = self.config.data.path.as_deref();
        path.and_then(Path::file_name)
            .map_or("the Rust sources here".into(), |name| {
                name.to_string_lossy().into_owned()
            })
    }
}
