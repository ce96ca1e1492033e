//! `fascicle train`: from a configuration and flags to a run directory.

mod survivors;

use crate::{
    Registry,
    corpus::Opened,
    device,
    ending::{Ending, best_validation},
    explain::{Explanation, Seen},
    failure::{Failure, Outcome},
    initial::{self, Initial},
    inputs, interrupt, launcher, layout,
    numbers::grouped,
    output,
    overrides::{GRID, Overrides},
    planned::{planned, settle_memory},
    progress::Progress,
    ranks::Team,
    recovery,
    report::Facts,
    resumed, run_dir,
    this_machine::ThisMachine,
};
use bootstrap::World;
use clap::Args;
use grid::{Demands, machine::Machine};
use hal::{Capabilities, Driver};
use parallel::pipeline::ScheduleKind;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use train::{
    Config, Families,
    checkpoint::{Error, Reader},
    config::{CheckpointConfig, TrainingConfig},
    generate::configured,
    run::{BestValidation, Resume, Run, has_local_checkpoints, recording, settle_bits},
    store,
};

/// Columns of a timeline that no terminal shows.
const WIDE: usize = 120;

/// Arguments of `fascicle train`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Train {
    /// Configuration file; defaults to a small GPT on 8 ranks
    #[arg(conflicts_with = "resume")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Run directory; defaults to runs/ and the current time
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Resume the run in this directory, on the same or another grid, with the configuration of its
    /// newest checkpoint
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Resume the run in --out if it has a checkpoint, and begin it otherwise: one command for jobs that
    /// are queued again
    #[arg(long, requires = "out")]
    auto_resume: bool,
    /// When processes die, continue in those that are left, from the newest checkpoint and on a grid that fits them; needs an MPI library
    /// with ULFM. Processes beyond the run's number of ranks stand by
    #[arg(long, conflicts_with = "explain")]
    survive: bool,
    /// Begin with the weights of this folder instead of random ones: one of another program (config.json and safetensors
    /// files, or a checkpoint of Megatron-LM), a checkpoint or a run directory. Its model and tokenizer are taken too, but for keys that the configuration
    /// file or --set states
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "record"])]
    init_from: Option<PathBuf>,
    /// Resume although data, tokenizer or settings differ from those of the checkpoint
    #[arg(long)]
    allow_changes: bool,
    /// Run one step, report what it does on each axis, and exit
    #[arg(long)]
    explain: bool,
    /// Use the planner's best grid, order, schedule and micro-batches for this number of ranks
    #[arg(long, conflicts_with = "resume")]
    plan: bool,
    /// Machine for --plan and --explain: a name or a description file. Without it, --plan measures this
    /// machine, and keeps what it found for 30 days in the cache folder
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Record the work of one step on every stream in trace.json
    #[arg(long)]
    trace: bool,
    /// Record what a rank receives, in rank-N.recording of the run directory, for `fascicle replay`
    #[arg(long, value_name = "rank=N", value_parser = rank, conflicts_with = "explain")]
    record: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

// A rank, as in `rank=3`.
fn rank(text: &str) -> Result<usize, String> {
    let number = text
        .strip_prefix("rank=")
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("found `{text}`, needs rank=N"))
}

impl Train {
    /// Trains, or explains a step.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        match self.survive {
            true => survivors::run(self, registry),
            false => self.attempt(registry),
        }
    }

    // Trains until the ranks have ended, or explains a step.
    fn attempt(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        if !self.explain
            && let Some(dir) = self.begins_again()
        {
            recovery::recover(dir)?;
            let stored = self.store_of_run(dir, &registry.families)?;
            recovery::from_store(dir, &stored)?;
        }
        let from = self.from()?;
        let (mut config, opened) = self.prepare(&registry.families, from.as_ref())?;
        let (this, mut planned_peak) = (ThisMachine::default(), None);
        if self.plan {
            (config, planned_peak) = planned(registry, &this, config)?;
        }
        let (threads, settings) = (config.parallel.threads, config.device_settings());
        let device = device::capabilities(driver, threads, settings)?;
        self.check_record(&config)?;
        let why_run = settle_bits(&mut config, &device, from.as_ref())?;
        let memory = settle_memory(registry, &this, &mut config)?;
        let peak_flop_per_s = match self.plan {
            true => planned_peak,
            false => peak_flop_per_s(&config, &device)?,
        };
        match self.explain {
            true => self.explain(driver, config, opened, (why_run, memory)),
            false => {
                let facts = Facts {
                    data: opened.name.clone(),
                    tokenizer: opened.tokenizer_name(),
                    mixture: opened.mixture.clone(),
                    device: device.description,
                    why_run,
                    memory,
                    ..Facts::new(&config)
                };
                let run = (facts, config, peak_flop_per_s);
                self.train((driver, &registry.families), run, opened, from)
            }
        }
    }

    /// The run's folder, if the same command continues where it ended.
    pub(super) fn begins_again(&self) -> Option<&Path> {
        let out = self.out.as_deref().filter(|_| self.auto_resume);
        self.resume.as_deref().or(out)
    }

    /// The number of ranks that the command itself states.
    pub(super) fn stated_ranks(&self) -> Option<usize> {
        let of_grid = self.overrides.grid.and_then(|grid| grid.world_size().ok());
        of_grid.or(self.overrides.ranks)
    }

    /// What the command's model asks of a grid.
    pub(super) fn demands(&self, families: &Families) -> Outcome<Demands> {
        Ok(self.stated(families)?.demands())
    }

    /// What says when the command's run is complete.
    pub(super) fn training(&self, families: &Families) -> Outcome<TrainingConfig> {
        Ok(self.stated(families)?.training)
    }

    // Where copies of the run in a folder lie, before it is known whether the folder has a checkpoint that says so.
    fn store_of_run(&self, dir: &Path, families: &Families) -> Outcome<CheckpointConfig> {
        let of_run = || Config::read(&dir.join("config.toml"), families).ok();
        // A file that cannot be read stops no run that is resumed, and is refused where one begins.
        let stated = self.config.as_ref();
        let stated = stated.and_then(|path| Config::read(path, families).ok());
        let config = stated.or_else(of_run);
        let config = config.map_or_else(|| Config::parse("", families), Ok)?;
        Ok(self.overrides.applied(config, families)?.checkpoint)
    }

    // The configuration with the flags, before the data and the machine settle the rest.
    fn stated(&self, families: &Families) -> Outcome<Config> {
        let base = self.base(families, self.from()?.as_ref())?;
        self.overrides.applied(base, families)
    }

    /// Whether this number of ranks can train such a model: on the command's grid or, if it states none, on any grid.
    pub(super) fn fits(&self, demands: &Demands, ranks: usize) -> bool {
        match &self.overrides.grid {
            Some(grid) => grid.world_size() == Ok(ranks) && demands.check(grid).is_ok(),
            None => !demands.fits(ranks).is_empty(),
        }
    }

    // The number of ranks that the command, its configuration or its checkpoint states.
    fn ranks_of_run(&self, families: &Families) -> Outcome<Option<usize>> {
        if let Some(ranks) = self.stated_ranks() {
            return Ok(Some(ranks));
        }
        let states = self.from()?.is_some() || self.states_grid()?;
        let grid = self.stated(families)?.parallel.grid;
        Ok(grid.world_size().ok().filter(|_| states))
    }

    fn check_record(&self, config: &Config) -> Outcome {
        let ranks = config.grid()?.world_size();
        let refuse = |what: String| Err(Failure::Usage(format!("--record: found {what}")));
        match (self.record, config.parallel.schedule) {
            (Some(rank), _) if rank >= ranks => {
                refuse(format!("rank={rank}, needs a rank below {ranks}"))
            }
            (Some(_), ScheduleKind::MessageDriven { .. }) => refuse(
                "parallel.schedule = \"message-driven\", whose order depends on time, needs another schedule".into(),
            ),
            _ => Ok(()),
        }
    }

    // Refuses invalid input before the data is read, except where validity depends on the data.
    fn prepare(&self, families: &Families, from: Option<&Reader>) -> Outcome<(Config, Opened)> {
        let base = self.base(families, from)?;
        if let (Some(_), Some(path)) = (from, &self.config) {
            resumed::note_unused(path, &base, families)?;
        }
        let mut config = self.overrides.applied(base, families)?;
        if let Some(machine) = &self.machine {
            config.parallel.machine = Some(machine.clone());
        }
        let follows_processes = from.is_none() && !self.states_grid()?;
        config.parallel.check()?;
        if let Some((url, _)) = config.checkpoint.stored() {
            // The store is not asked yet: one that is away stops no run.
            drop(store::open(url)?);
        }
        for doubt in config.doubts() {
            output::note(&format!("warning: {doubt}"));
        }
        self.overrides.choose_grid(
            &mut config,
            launcher::num_ranks().filter(|_| follows_processes),
        )?;
        inputs::settled(config, from.is_some())
    }

    // Whether the user chose the number of ranks or a grid, which otherwise follow the processes that were started.
    fn states_grid(&self) -> Outcome<bool> {
        let Some(path) = &self.config else {
            return Ok(self.overrides.sets_grid());
        };
        let stated = resumed::stated_keys(path)?;
        let parallel = stated.get("parallel").and_then(toml::Value::as_table);
        let of_file = parallel.is_some_and(|keys| GRID.iter().any(|key| keys.contains_key(*key)));
        Ok(of_file || self.overrides.sets_grid())
    }

    // The newest checkpoint of the run to resume, if one is resumed.
    fn from(&self) -> Outcome<Option<Reader>> {
        match (&self.resume, &self.out) {
            (Some(dir), _) => {
                resumed::check_is_run(dir)?;
                super::checkpoint::open(dir).map(Some)
            }
            (None, Some(dir)) if self.auto_resume => match Reader::open(dir) {
                Ok(reader) => Ok(Some(reader)),
                Err(Error::Missing { .. } | Error::NoCheckpoint { .. }) => Ok(None),
                Err(error) => Err(train::Error::from(error).into()),
            },
            _ => Ok(None),
        }
    }

    fn base(&self, families: &Families, from: Option<&Reader>) -> Outcome<Config> {
        match (from, &self.config) {
            (Some(reader), _) => configured(reader, families).map_err(Failure::run),
            (None, Some(path)) => {
                let config = Config::read(path, families).map_err(Failure::usage)?;
                self.with_initial(config, families)
            }
            (None, None) => self.with_initial(Config::parse("", families)?, families),
        }
    }

    // The model and the tokenizer of the weights with which the run begins, but for keys that the configuration file states.
    fn with_initial(&self, mut config: Config, families: &Families) -> Outcome<Config> {
        let Some(path) = &self.init_from else {
            return Ok(config);
        };
        let initial = Initial::open(path, families)?;
        let stated = match &self.config {
            Some(path) => resumed::stated_keys(path)?,
            None => toml::Table::new(),
        };
        let table = |name: &str| stated.get(name).and_then(toml::Value::as_table);
        let keys = table("model").cloned().unwrap_or_default();
        config.model = families.edited(Some(&initial.model), keys)?;
        if table("data").is_none_or(|data| !data.contains_key("tokenizer")) {
            config.data.tokenizer = initial.tokenizer;
        }
        Ok(config)
    }

    fn train(
        &self,
        (driver, families): (Driver, &Families),
        (mut facts, config, peak_flop_per_s): (Facts, Config, Option<f64>),
        opened: Opened,
        from: Option<Reader>,
    ) -> Outcome {
        let first_step = from.as_ref().map_or(0, Reader::step);
        if let Some(reader) = &from
            && BestValidation::is_last(reader, &config.training)?
        {
            return self.nothing_to_do(reader, &config.training);
        }
        let dir = launcher::once(|| match (&self.resume, &self.out) {
            (Some(dir), _) | (None, Some(dir)) => Ok(dir.clone()),
            (None, None) => run_dir::fresh(),
        })?;
        let init = match (&from, &self.init_from) {
            (None, Some(path)) => Some(initial::weights(path, &config, families)?),
            _ => None,
        };
        // The first steps are not typical: they allocate buffers and learn the order of gathers.
        let traced = (first_step + 2).min(config.training.steps - 1);
        facts.dir = dir.clone();
        facts.initial = self.init_from.clone().filter(|_| from.is_none());
        let run = Run {
            config,
            data: opened.data,
            num_tokens: opened.num_tokens,
            tokenizer: opened.tokenizer,
            dir: dir.clone(),
            init,
            resume: from.map(|reader| Resume {
                checkpoint: reader.path().to_owned(),
                any_change: self.allow_changes,
            }),
            restart: self.auto_resume,
            trace_step: self.trace.then_some(traced),
            peak_flop_per_s,
        };
        let is_new = self.out.as_ref().is_none_or(|dir| !dir.exists()) && run.resume.is_none();
        // Held by the first process until the run has ended.
        let mut lock = None;
        launcher::once(|| {
            lock = Some(run.prepare().map_err(Failure::from)?);
            Ending::remove(&run.dir);
            Ok(run.dir.clone())
        })?;
        let ended = self.launch(driver, run, facts);
        if ended.is_err() && lock.is_some() && is_new {
            run_dir::remove_unused(&dir);
        }
        drop(lock);
        ended
    }

    // A run that is queued again after its last step has succeeded; a user who asks for more steps has not said how many.
    fn nothing_to_do(&self, reader: &Reader, training: &TrainingConfig) -> Outcome {
        let (done, steps) = (reader.step(), training.steps);
        let best = BestValidation::of(reader)?.filter(|_| done < steps);
        let done = match best {
            Some(best) => format!("{}, and the run has ended", best_validation(&best)),
            None => format!("{} of {} steps are done", grouped(done), grouped(steps)),
        };
        let Some(dir) = &self.resume else {
            let dir = self.out.as_deref().unwrap_or(Path::new("")).display();
            output::note(&done);
            return output::result(&dir.to_string());
        };
        let needs = match best {
            Some(best) => format!("--set training.patience=N above {}", best.since),
            None => format!("--steps above {}", grouped(reader.step())),
        };
        Err(Failure::Usage(format!(
            "--resume {}: {done}, needs {needs}",
            dir.display()
        )))
    }

    fn launch(&self, driver: Driver, run: Run, facts: Facts) -> Outcome {
        let team = Team::of(&run.config)?;
        let (dir, progress) = (run.dir.clone(), Arc::new(Progress::new(facts)));
        let (screen, stop) = (
            progress.clone(),
            interrupt::watch(progress.clone(), " and saving a checkpoint"),
        );
        let recorded = self.record;
        let ranks = team.run(driver, move |world, device| {
            warn_of_nodes(world, &run.config)?;
            let own = recorded.filter(|rank| *rank == world.rank());
            let own = own.map(|_| recording::record(world, device, &run));
            let of_all = || (world.clone(), device.clone(), run.clone());
            let (world, device, run) = own.transpose()?.unwrap_or_else(of_all);
            let summary = train::run::run(&world, &device, &run, &*progress, &stop)?;
            if world.rank() == 0 {
                // Nothing is left to save, so from now on an interrupt ends the program at once.
                stop.ask();
                progress.leave();
            }
            let ending = Ending::new(run.dir.clone(), summary);
            if world.rank() == 0
                && let Err(error) = ending.write(&run.dir)
            {
                output::note(&format!("warning: ending.json: {error}"));
            }
            Ok(ending)
        });
        screen.leave();
        let ending = ranks
            .map_err(|failure| match launcher::goes_on() {
                true => failure,
                false => with_way_on(failure, &dir),
            })?
            .swap_remove(0);
        output::note(&ending.text());
        match self.json {
            true => output::json(&ending)?,
            false => output::path(&ending.run)?,
        }
        match ending.stopped {
            true => Err(Failure::Stopped),
            false => Ok(()),
        }
    }

    fn explain(
        &self,
        driver: Driver,
        config: Config,
        opened: Opened,
        settled: (Option<String>, Vec<String>),
    ) -> Outcome {
        let (asked, data) = (config.clone(), opened.data);
        let seen = Team::of(&config)?.run(driver, move |world, device| {
            Seen::of(world, device, &asked, &*data)
        })?;
        let explanation = Explanation::new(&config, &seen[0], settled)?;
        match self.json {
            true => output::json(&explanation),
            false => output::result(&explanation.text(layout::of_results().unwrap_or(WIDE))),
        }
    }
}

// The peak of all devices by the description of their machine, or by the name of a GPU.
fn peak_flop_per_s(config: &Config, device: &Capabilities) -> Outcome<Option<f64>> {
    let machine = match config.machine()? {
        Some(named) => Some(named.as_ref().clone()),
        None => Machine::with_gpu(&device.description),
    };
    let ranks = config.grid()?.world_size();
    let dtype = config.training.precision.dtype().name();
    Ok(machine.and_then(|machine| machine.peak_of(ranks, dtype)))
}

// Warns before the run if the nodes split an axis with much traffic.
fn warn_of_nodes(world: &World, config: &Config) -> train::Result<()> {
    if world.num_nodes() == 1 {
        return Ok(());
    }
    let grid = config.grid_on(world)?;
    let mapping = parallel::mapping::mapping(world, &grid, config.parallel.positions)?;
    if let Some(warning) =
        train::placement::warning(config, &grid, &mapping)?.filter(|_| world.rank() == 0)
    {
        output::note(&warning);
    }
    Ok(())
}

// Adds the command that resumes a failed run, if the run or its nodes have a checkpoint.
fn with_way_on(failure: Failure, dir: &Path) -> Failure {
    let Failure::Run(text) = failure else {
        return failure;
    };
    let has = match (Reader::open(dir), has_local_checkpoints(dir)) {
        (Ok(reader), false) => format!("the last checkpoint is {}", reader.path().display()),
        (Ok(reader), true) => format!(
            "the last checkpoint is {}, or a newer local one of the nodes",
            reader.path().display()
        ),
        (Err(_), true) => "the nodes may have kept a local checkpoint".into(),
        (Err(_), false) => return Failure::Run(text),
    };
    let dir = dir.display();
    Failure::Run(format!(
        "{text}\n{has}; to resume: fascicle train --resume {dir}"
    ))
}
