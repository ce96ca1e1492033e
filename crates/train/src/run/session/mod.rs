//! What a run does around its steps: records and validation, `checkpoints`, and the `extras` that are due now and then.

mod checkpoints;
mod extras;

use super::{
    BestValidation, Observer, Run, Stop, StoreReport, Summary, copies::StoreCopies,
    files::RunFiles, local::LocalCheckpoints, plot::LossPlot, samples::SampleText,
    stragglers::Stragglers, trace, traffic::StepTraffic,
};
use crate::{
    Error, Result,
    batches::Validation,
    checkpoint::Retention,
    metrics::Record,
    trainer::{Callback, CheckpointWriter, PeakMemory, StepDone, Trainer},
};
use bootstrap::Launcher;
use checkpoints::told_report;
use std::{ops::ControlFlow, path::PathBuf, time::Instant};

/// A run between its first step and its last: records, validation, checkpoints, a clean stop.
pub(super) struct Session<'a> {
    run: &'a Run,
    observer: &'a dyn Observer,
    stop: &'a Stop,
    // Whether this is rank 0, which keeps the records and reports.
    is_first: bool,
    files: RunFiles,
    // Trained on so far.
    tokens: u64,
    // Of the model, in each step; known on rank 0, unless the model cannot be counted.
    flop_per_step: Option<f64>,
    traffic: StepTraffic,
    stragglers: Stragglers,
    has_told_copies: bool,
    last: Option<Record>,
    // Of a run with patience.
    best: Option<BestValidation>,
    text: Option<SampleText>,
    writer: CheckpointWriter,
    local: Option<LocalCheckpoints>,
    // Whether the last local checkpoint failed: of several failures in a row, only the first is reported.
    has_local_failed: bool,
    plot: LossPlot,
    checkpoint: Option<PathBuf>,
    retention: Retention,
    // Of rank 0, if the run has a store.
    copies: Option<StoreCopies>,
    stored: Option<StoreReport>,
}

impl Callback for Session<'_> {
    fn before_step(&mut self, trainer: &mut Trainer) -> Result<()> {
        let (context, step) = (trainer.context(), trainer.next_step());
        if self.run.trace_step == Some(step) {
            tensor::trace::start(context.device());
        }
        self.traffic.before(step, context);
        context.world().beat(&format!("step {}", step + 1));
        Ok(())
    }

    fn wants_stop(&mut self) -> bool {
        self.stop.asked()
    }

    fn after_step(&mut self, trainer: &mut Trainer, done: &StepDone) -> Result<ControlFlow<()>> {
        let (step, training) = (done.result.step, &self.run.config.training);
        self.traffic.after(step, trainer.context());
        if self.run.trace_step == Some(step) {
            let written = trace::write(trainer.context(), &self.run.dir, step);
            self.tolerate(written)?;
        }
        self.write_digest(trainer)?;
        self.measure_speeds(trainer, step + 1)?;
        let is_stopped = self.note(trainer, self.run.record(trainer, done), done.is_last)?;
        let is_regular = [training.checkpoint_every, training.keep_every]
            .iter()
            .any(|every| is_due(step + 1, *every));
        let is_last = done.is_last || is_stopped || self.is_out_of_patience();
        match is_last || is_regular {
            true => self.checkpoint(trainer, is_last || !training.checkpoint_async)?,
            false => {
                let done = self.writer.poll()?;
                self.completed(done)?;
            }
        }
        self.save_locally(trainer, is_last || is_regular)?;
        let news = self.copies.as_mut().map(StoreCopies::news);
        self.report_copies(news.unwrap_or_default())?;
        if is_due(step + 1, training.sample_every) && !is_last {
            let sample = self.sample(trainer)?;
            if let Some(sample) = sample.filter(|_| self.is_first) {
                self.observer.sample(&sample);
            }
        }
        Ok(match is_last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }
}

impl<'a> Session<'a> {
    /// Opens the records after `first_step` steps, on rank 0.
    ///
    /// # Errors
    /// None for files that the disk refuses: the observer learns of them.
    pub(super) fn open(
        run: &'a Run,
        (observer, stop): (&'a dyn Observer, &'a Stop),
        trainer: &Trainer,
    ) -> Result<Session<'a>> {
        let (world, first_step) = (trainer.context().world(), trainer.next_step());
        let training = &run.config.training;
        let has_loss = || {
            let sets = run.data.validation_sets();
            sets.iter().any(|set| set.weight > 0.0)
        };
        if training.patience > 0 && !has_loss() {
            let needed = "0: this data has nothing to validate on";
            return Err(Error::setting(
                "training.patience",
                training.patience,
                needed,
            ));
        }
        let retention = Retention {
            newest: training.keep_checkpoints,
            every: training.keep_every,
            best: training.keep_best,
        };
        let mut session = Session {
            run,
            observer,
            stop,
            is_first: world.rank() == 0,
            files: RunFiles::default(),
            tokens: 0,
            flop_per_step: None,
            // The first steps are not typical: they learn the order of gathers.
            traffic: StepTraffic::of((first_step + 2).min(training.steps.saturating_sub(1))),
            stragglers: Stragglers::default(),
            has_told_copies: false,
            last: None,
            best: run.best_so_far()?,
            text: SampleText::of(run)?,
            writer: CheckpointWriter::new(trainer, &run.dir.join("checkpoints"), retention)?,
            local: None,
            has_local_failed: false,
            plot: LossPlot::new(&run.dir),
            checkpoint: None,
            retention,
            copies: None,
            stored: None,
        };
        let local = LocalCheckpoints::open(run, trainer);
        session.local = session.tolerate(local)?.flatten();
        if session.is_first {
            let (files, faults) = RunFiles::open(run, first_step);
            session.files = files;
            session.tokens = run.tokens_before(first_step);
            session.flop_per_step = run.flop_per_step().ok();
            for fault in faults {
                session.tolerate::<()>(Err(fault))?;
            }
            if world.launcher() != Launcher::Recording {
                let copies = session.open_store(first_step);
                session.copies = session.tolerate(copies)?.flatten();
            }
        }
        Ok(session)
    }

    /// The steps after which the run ends: none but those that it has done, if it was resumed without patience left.
    pub(super) fn steps(&self) -> u64 {
        match self.is_out_of_patience() {
            true => 0,
            false => self.run.config.training.steps,
        }
    }

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
            match trainer.validate_until(&*self.run.data, || self.stop.asked())? {
                Some(validation) => self.validated(&mut record, validation),
                None => is_stopped = !is_last,
            }
        }
        self.tokens += self.run.tokens_per_step() as u64;
        record.tokens = self.tokens;
        record.flop_per_s = self.flop_per_step.map(|flop| flop / record.step_s);
        let peak = self.run.peak_flop_per_s;
        record.mfu = record
            .flop_per_s
            .zip(peak)
            .map(|(speed, peak)| speed / peak);
        // It stands in the first step that has it.
        let last = self.last.as_ref().and_then(|last| last.peak_memory_bytes);
        if last == record.peak_memory_bytes {
            record.peak = None;
        }
        let written = self.files.record(&record);
        self.tolerate(written)?;
        let written = self.files.event(&record);
        self.tolerate(written)?;
        if self.is_first {
            self.observer.step(&record);
        }
        self.last = Some(record);
        Ok(is_stopped)
    }

    fn validated(&mut self, record: &mut Record, validation: Validation) {
        let training = &self.run.config.training;
        record.val_loss = validation.loss;
        record.val_preferences = validation.preferences;
        if validation.sets.len() > 1 {
            record.val_losses = validation.sets.into_iter().collect();
        }
        if let Some(loss) = validation.loss.filter(|_| training.patience > 0) {
            let found = (record.step, loss);
            self.best = BestValidation::after(self.best, found, training.min_delta);
        }
    }

    fn is_out_of_patience(&self) -> bool {
        let training = &self.run.config.training;
        self.best
            .is_some_and(|best| best.is_out_of_patience(training))
    }

    // What a run can do without is reported if it fails, on rank 0. Any other error, such as that of a collective, is returned.
    fn tolerate<T>(&self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(error) if is_dispensable(&error) => {
                if self.is_first {
                    self.observer.trouble(&error);
                }
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// How the run ended. Collective.
    ///
    /// # Errors
    /// As [`Trainer::validate_until`]; those of the model's text and of the exchange.
    pub(super) fn summary(mut self, trainer: &Trainer, begun: Instant) -> Result<Summary> {
        let out_of_patience = self.best.filter(|_| self.is_out_of_patience());
        let (steps, last) = (trainer.next_step(), self.last.take());
        let stopped = steps < self.run.config.training.steps && out_of_patience.is_none();
        let validation_loss = match last.as_ref().and_then(|record| record.val_loss) {
            None if !stopped => trainer
                .validate_until(&*self.run.data, || self.stop.asked())?
                .and_then(|validation| validation.loss),
            known => known,
        };
        let sample = match stopped {
            true => None,
            false => self.sample(trainer)?,
        };
        let context = trainer.context();
        let mut snapshot_bytes = self.writer.buffer_bytes();
        if let Some(local) = self.local {
            snapshot_bytes += local.buffer_bytes();
            local.discard(context.world(), self.run)?;
        }
        Ok(Summary {
            steps,
            loss: last.map_or(f64::NAN, |record| record.loss),
            validation_loss,
            seconds: begun.elapsed().as_secs_f64(),
            stopped,
            out_of_patience,
            sample: sample.map(|sample| sample.text),
            checkpoint: self.checkpoint,
            stored: told_report(context.world(), self.stored)?,
            peak: PeakMemory::of_all(context.world(), context.device(), snapshot_bytes)?,
            traffic: self.traffic.of_first_rank(context.world())?,
        })
    }
}

// Errors of what a run can do without: records, plots, traces, copies in a store and local checkpoints.
fn is_dispensable(error: &Error) -> bool {
    matches!(
        error,
        Error::Metrics(_)
            | Error::File { .. }
            | Error::Io(_)
            | Error::Checkpoint(_)
            | Error::Peer { .. }
    )
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
