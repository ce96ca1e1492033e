//! `fascicle checkpoint audit`: executes the steps between two checkpoints again, and confirms or refutes the second.

mod folder;
mod verdict;

use super::open;
use crate::{
    Registry,
    corpus::Opened,
    device,
    failure::{Failure, Outcome},
    inputs, interrupt, launcher,
    numbers::grouped,
    output,
    overrides::Overrides,
    progress::Progress,
    ranks::Team,
    report::Facts,
};
use clap::Args;
use folder::Folder;
use grid::Degrees;
use hal::Driver;
use parallel::Reproducible;
use std::{path::PathBuf, sync::Arc};
use train::{
    Config, Families,
    checkpoint::Reader,
    generate::configured,
    run::{Resume, Run, audit, settle_bits},
};
use verdict::Verdict;

/// Arguments of `fascicle checkpoint audit`.
#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// The checkpoint or run directory from which to execute the steps again
    a: PathBuf,
    /// A checkpoint of a later step, or a run directory: what is confirmed or refuted
    b: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Keep the checkpoint that the audit makes, in a new folder; ranks on several hosts need one that all of them see
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Audit {
    /// Audits; every process of a job calls this.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        self.keep.as_deref().map_or(Ok(()), folder::check_new)?;
        let (from, to) = (open(&self.a)?, open(&self.b)?);
        if to.step() <= from.step() {
            return Err(Failure::usage(format!(
                "{}: found step {}, needs a step above {}, that of {}",
                to.path().display(),
                grouped(to.step()),
                grouped(from.step()),
                from.path().display()
            )));
        }
        let config = self.config(&from, &to, &registry.families)?;
        let (config, opened) = inputs::settled(config, true)?;
        let verdict = Verdict::new(&from, &to, &config);
        let run = run_from(config, &opened, &from);
        run.check()?;
        let disagreements = audit::disagreements(&run, &from, &to)?;
        if !disagreements.is_empty() {
            return verdict.disagreeing(disagreements).end(self.json);
        }
        let mut folder = Folder::default();
        let run = folder.prepare(self.keep.as_deref(), run)?;
        match execute(driver, run, opened, to.step())? {
            Some(path) => verdict.compared(&open(&path)?, &to)?.end(self.json),
            None => Ok(()),
        }
    }

    // The earlier checkpoint's configuration with the flags, on the grid of the audit.
    fn config(&self, from: &Reader, to: &Reader, families: &Families) -> Outcome<Config> {
        let mut layout = configured(from, families).map_err(Failure::run)?;
        let asked = self.overrides.applied(layout.clone(), families)?;
        let is_on_any_grid = asked.training.reproducible == Reproducible::Grid.into();
        match is_on_any_grid {
            true => {
                // Any grid and any machine will do.
                (layout.parallel.grid, layout.parallel.ranks) = (Degrees::default(), None);
                layout.parallel.machine = None;
            }
            false => audit::take_layout(&mut layout, to)?,
        }
        let mut config = self.overrides.applied(layout.clone(), families)?;
        config.parallel.check()?;
        let ranks = launcher::num_ranks().filter(|_| is_on_any_grid);
        self.overrides.choose_grid(&mut config, ranks)?;
        match is_on_any_grid {
            true if self.overrides.micro_batches.is_none() => fit_micro_batches(&mut config),
            true => {}
            false => self.refuse_other_layout(&layout, &config, to)?,
        }
        Ok(config)
    }

    fn refuse_other_layout(&self, layout: &Config, config: &Config, to: &Reader) -> Outcome {
        match audit::other_layout(layout, config)? {
            None => Ok(()),
            Some(other) => Err(Failure::usage(format!(
                "{other}, that of {}: with training.reproducible = \"run\", no other gives the same bits",
                to.path().display()
            ))),
        }
    }
}

// The run that an audit is, before it has a folder.
fn run_from(config: Config, opened: &Opened, from: &Reader) -> Run {
    Run {
        config,
        data: opened.data.clone(),
        num_tokens: opened.num_tokens,
        tokenizer: opened.tokenizer.clone(),
        dir: PathBuf::new(),
        init: None,
        resume: Some(Resume {
            checkpoint: from.path().to_owned(),
            any_change: false,
        }),
        restart: false,
        trace_step: None,
        peak_flop_per_s: None,
    }
}

// Executes the steps, and returns the checkpoint that they lead to on the first rank, which compares it for all.
fn execute(driver: Driver, mut run: Run, opened: Opened, steps: u64) -> Outcome<Option<PathBuf>> {
    let (threads, settings) = (run.config.parallel.threads, run.config.device_settings());
    let device = device::capabilities(driver, threads, settings)?;
    settle_bits(&mut run.config, &device, None)?;
    let facts = Facts {
        tokenizer: opened.tokenizer_name(),
        data: opened.name,
        mixture: opened.mixture,
        device: device.description,
        dir: run.dir.clone(),
        ..Facts::new(&run.config)
    };
    let (team, progress) = (Team::of(&run.config)?, Arc::new(Progress::new(facts)));
    let (screen, stop) = (progress.clone(), interrupt::watch(progress.clone(), ""));
    let ranks = team.run(driver, move |world, device| {
        let path = audit::replay(world, device, &run, steps, &*progress, &stop)?;
        Ok((world.rank(), path))
    });
    screen.leave();
    match ranks?.swap_remove(0) {
        (_, None) => {
            output::note("stopped: nothing is confirmed or refuted");
            Err(Failure::Stopped)
        }
        (0, path) => Ok(path),
        _ => Ok(None),
    }
}

// Lowers the number of micro-batches until they fit the grid. If none fits, the check of the configuration says why.
fn fit_micro_batches(config: &mut Config) {
    let fits = |micro_batches: &usize| {
        let mut tried = config.clone();
        tried.training.micro_batches = *micro_batches;
        tried.demands().are_met_by(&tried.parallel.grid) && tried.schedule().is_ok()
    };
    // More than the rows of the batch never fit.
    let most = config.training.micro_batches.min(config.training.batch);
    if let Some(fitting) = (1..=most).rev().find(fits) {
        config.training.micro_batches = fitting;
    }
}
