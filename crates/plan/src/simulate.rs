//! A training step of one candidate on the simulated vendor: the program that will run, with time in place of
//! numbers.

use crate::{Candidate, Error, Request, Result, periods::Periods};
use ::sim::{Breakdown, Work, cost::Costs};
use bootstrap::{
    FailureKind,
    local::{self, Options, StandIns},
};
use grid::{Axis, Coordinates, Grid};
use hal::Capabilities;
use parallel::{Batch, Context, Counters};
use std::{ops::Range, sync::Arc};
use tensor::{
    DType, Device, MemoryKind, MemoryUse, Tensor,
    trace::{self, Span},
};
use train::{Config, config::BitsChoice, run::settle_bits, trainer::Trainer};

/// Steps before the measured one: the first learns the order in which weights are gathered.
const WARM_UP: u64 = 1;

/// Additional simulations for a job whose stages share cores: each takes from the one before how many ranks
/// compute at a time.
const ROUNDS: usize = 2;

/// The result of a simulated step.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The simulated candidate.
    pub candidate: Candidate,
    /// Segments of the model in each part of the pipeline; empty if there is one part.
    pub depths: Vec<usize>,
    /// Seconds per step.
    pub step_s: f64,
    /// Tokens per second of the full job; rows if the model does not read text.
    pub tokens_per_s: f64,
    /// Flop per step by the field's count, divided by its time, in flop/s of the full job. What is recomputed counts.
    pub flops: f64,
    /// Those as percent of the advertised peak of all devices.
    pub percent_of_peak: f64,
    /// Model flop utilisation: the fraction of that peak without what is recomputed.
    pub mfu: f64,
    /// One per pipeline stage.
    pub stages: Vec<Stage>,
}

/// The view of the rank that stands for a pipeline stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Where the time of the step went.
    pub breakdown: Breakdown,
    /// The memory of its tensors.
    pub memory: MemoryUse,
    /// Bytes of the host's memory that copies for checkpoints take.
    pub snapshot_bytes: usize,
    /// Whether ranks compute on hosts, where those copies lie beside the tensors.
    pub is_on_host: bool,
    /// What its collectives moved in the step.
    pub counters: Counters,
    /// The world rank that stands for it.
    pub rank: usize,
    /// Its work on its streams, if requested; times count from the opening of the device.
    pub spans: Vec<Span>,
    /// The same with flop, and the bytes that it reads and writes.
    pub work: Vec<Work>,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
}

impl Stage {
    /// The start of its step, in microseconds since the device was opened.
    pub fn begin_us(&self) -> f64 {
        self.begin_s * 1e6
    }
}

impl Outcome {
    /// Bytes on the fullest rank; on hosts, with the copies for checkpoints.
    pub fn memory(&self) -> usize {
        let bytes = |stage: &Stage| match stage.is_on_host {
            true => stage.memory.peak + stage.snapshot_bytes,
            false => stage.memory.peak,
        };
        self.stages.iter().map(bytes).max().unwrap_or(0)
    }

    /// The most bytes of the host's memory that a rank's copies for checkpoints take.
    pub fn snapshot_bytes(&self) -> usize {
        let bytes = self.stages.iter().map(|stage| stage.snapshot_bytes);
        bytes.max().unwrap_or(0)
    }

    /// The stage that computes longest.
    pub fn slowest(&self) -> &Stage {
        let compute = |stage: &&Stage| stage.breakdown.compute_s();
        let slowest = self
            .stages
            .iter()
            .max_by(|one, other| compute(one).total_cmp(&compute(other)));
        slowest.expect("a grid has at least one stage")
    }
}

/// Simulates a step of `candidate`; `traced` keeps the span of every piece of work.
///
/// # Cost
/// A second or less, whatever the number of devices: one thread for each pipeline stage. A step of many micro-batches is concluded from
/// two of few; one that is traced is simulated whole.
/// # Errors
/// [`Error::Train`] with the numbers if it does not fit the devices' memory, or if the candidate does not fit the
/// model; [`Error::Simulation`] if a rank panics or hangs.
pub fn simulate(request: &Request, candidate: &Candidate, traced: bool) -> Result<Outcome> {
    let config = candidate.config(request);
    let costs = costs(request, candidate.memory.recomputes_all());
    let costs = costs.memory_limit(request.memory_limit);
    let step = simulate_config(request, config, (StandIn::First, traced), costs)?;
    Ok(outcome(request, candidate, step))
}

/// The costs of the request's job, without a limit of memory but the machine's.
pub(crate) fn costs(request: &Request, recomputes_all: bool) -> Costs {
    Costs::new(request.machine.clone(), request.devices)
        .tuned(request.tuned)
        .attention(request.attention(recomputes_all))
}

/// A simulated step: the segments of each part of the pipeline, and what each stage saw.
pub(crate) struct Step {
    pub(crate) depths: Vec<usize>,
    pub(crate) stages: Vec<Stage>,
}

impl Step {
    /// Its seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let latest = |time: fn(&Stage) -> f64| self.stages.iter().map(time).fold(0.0, f64::max);
        latest(|stage| stage.end_s) - latest(|stage| stage.begin_s)
    }

    // Fraction of the step in which a stage computes, averaged over stages.
    fn computing(&self) -> f64 {
        let compute: f64 = self
            .stages
            .iter()
            .map(|stage| stage.breakdown.compute_s())
            .sum();
        compute / self.stages.len() as f64 / self.seconds()
    }
}

/// The rank that stands for a stage: the first on all axes, which has the most rows and the largest shards, or the last along X
/// and Y, whose buffers for sums in the order of their tree may be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    First,
    Last,
}

impl StandIn {
    fn coordinates(self, grid: &Grid) -> Coordinates {
        let first = grid.coordinates(0);
        match self {
            StandIn::First => first,
            StandIn::Last => [Axis::X, Axis::Y].into_iter().fold(first, |at, axis| {
                at.with(axis, grid.degrees().get(axis) - 1)
            }),
        }
    }
}

/// Simulates a step of a configuration whose grid has the request's devices.
///
/// # Errors
/// As [`simulate`].
pub(crate) fn simulate_config(
    request: &Request,
    mut config: Config,
    (stand_in, traced): (StandIn, bool),
    mut costs: Costs,
) -> Result<Step> {
    if config.training.reproducible == BitsChoice::Auto {
        settle_bits(&mut config, &capabilities(request), None)?;
    }
    if request.machine.device.shared_cores.is_some() && config.parallel.grid.pipeline > 1 {
        for _ in 0..ROUNDS {
            let computing =
                simulate_long(request, &config, (stand_in, false), costs.clone())?.computing();
            let busy = costs.placement().per_node as f64 * computing;
            costs = costs.busy(busy);
        }
    }
    simulate_long(request, &config, (stand_in, traced), costs)
}

// Those of the machine's devices; only hosts keep canonical sums at the speed of the others.
pub(crate) fn capabilities(request: &Request) -> Capabilities {
    let like = hal::dry::open();
    Capabilities {
        canonical_sums: request.is_on_hosts(),
        description: request.machine.device.name.clone(),
        ..like.capabilities().clone()
    }
}

fn simulate_long(
    request: &Request,
    config: &Config,
    (stand_in, traced): (StandIn, bool),
    costs: Costs,
) -> Result<Step> {
    let simulated =
        |config: &Config| simulate_at(request, config, (stand_in, traced), costs.clone());
    match Periods::of(config).filter(|_| !traced) {
        None => simulated(config),
        Some(periods) => {
            let [shorter, longer] = periods.configs(config);
            Ok(periods.step([simulated(&shorter)?, simulated(&longer)?]))
        }
    }
}

fn simulate_at(
    request: &Request,
    config: &Config,
    (stand_in, traced): (StandIn, bool),
    costs: Costs,
) -> Result<Step> {
    let config = config.clone();
    let depths = config.parallel.stages.clone().unwrap_or_default();
    let grid = config.grid()?;
    let job = Job {
        live: live(&grid, stand_in),
        stand_in,
        config,
        grid,
        costs: Arc::new(costs),
        on_hosts: request.is_on_hosts(),
        traced,
    };
    let options = job.options(request)?;
    let stages =
        local::run(options, move |world| job.stage(world)).map_err(|failure| {
            match failure.kind {
                FailureKind::Error(error) => Error::Train(error),
                _ => Error::Simulation(Box::new(failure)),
            }
        })?;
    Ok(Step { depths, stages })
}

// The rank that stands for each stage.
fn live(grid: &Grid, stand_in: StandIn) -> Vec<usize> {
    let mut live = grid.group(grid.rank(&stand_in.coordinates(grid)), Axis::Pipeline);
    live.sort_unstable();
    live
}

struct Job {
    config: Config,
    grid: Grid,
    costs: Arc<Costs>,
    live: Vec<usize>,
    stand_in: StandIn,
    on_hosts: bool,
    traced: bool,
}

impl Job {
    fn options(&self, request: &Request) -> Result<Options> {
        let grid = self.grid;
        let first = self.stand_in.coordinates(&grid);
        let stands_for = move |rank: usize| {
            let stage = grid.coordinates(rank).get(Axis::Pipeline);
            grid.rank(&first.with(Axis::Pipeline, stage))
        };
        let stand_ins = StandIns::new(request.devices, stands_for).map_err(train::Error::from)?;
        let per_node = request.machine.placement(request.devices).per_node;
        let options = Options::new(request.devices);
        Ok(Options {
            stand_ins: Some(stand_ins),
            ranks_per_node: Some(per_node),
            ..options
        })
    }

    fn stage(&self, world: bootstrap::World) -> train::Result<Stage> {
        let (device, recorder) = ::sim::open_recorded(::sim::Options {
            costs: self.costs.clone(),
            ordinal: world.rank(),
            live: Some(self.live.clone().into()),
            description: self.costs.machine().device.name.clone(),
        })?;
        let device = Device::new(device)?;
        let context = Context::new(world, self.grid, device.clone(), self.config.settings())?;
        context.describe_machine(self.costs.machine().clone().into());
        let mut trainer = self.config.trainer(&context)?;
        let copies = self.config.training.checkpoint_copies();
        let snapshot_bytes = copies * trainer.snapshot_bytes();
        let before = device.memory_use().in_use;
        let _snapshot = self.snapshot(&device, snapshot_bytes)?;
        let copy = device.memory_use().in_use - before;
        let batch = |step| self.batch(&trainer, step);
        // The last one is only announced, to schedules that go on into the next step.
        let batches = (0..=WARM_UP + 1)
            .map(batch)
            .collect::<train::Result<Vec<_>>>()?;
        let mut steps = batches.iter().zip(&batches[1..]);
        for (batch, next) in steps.by_ref().take(WARM_UP as usize) {
            step(&mut trainer, batch, next)?;
            recorder.synchronize()?;
        }
        context.reset_counters();
        if self.traced {
            trace::start(&device);
            recorder.keep_log(true);
        }
        let begin_s = recorder.now_s()?;
        recorder.begin()?;
        for (batch, next) in steps {
            step(&mut trainer, batch, next)?;
        }
        // The real run waits here too, because it reads the loss.
        recorder.synchronize()?;
        let end_s = recorder.now_s()?;
        let counters = context.counters();
        let breakdown = recorder.finish()?;
        let spans = trace::finish(&device)?;
        let work = recorder.take_log();
        let (rank, memory) = (context.world().rank(), device.memory_use());
        Ok(Stage {
            breakdown,
            memory: without_buffer(memory, copy),
            snapshot_bytes,
            is_on_host: self.on_hosts,
            counters,
            rank,
            spans,
            work,
            begin_s,
            end_s,
        })
    }

    // Where ranks compute on hosts, a copy for a checkpoint lies in the same memory as the tensors, and must fit there.
    fn snapshot(&self, device: &Device, bytes: usize) -> train::Result<Option<Tensor>> {
        let copy = || {
            device.allocating(MemoryKind::Buffers, || {
                Tensor::zeros(device, DType::F32, &[bytes.div_ceil(DType::F32.bytes())])
            })
        };
        Ok((self.on_hosts && bytes > 0).then(copy).transpose()?)
    }

    // Rows without values, because only their number matters.
    fn batch(&self, trainer: &Trainer, step: u64) -> train::Result<Batch> {
        let blank = |rows: Range<usize>| Ok(self.config.blank_rows(rows.len()));
        trainer.batch_of(step, blank)
    }
}

// A step, whose failure the other ranks learn at once. When the trainer is dropped, its memory waits for messages of theirs, which they
// send only after messages of this rank.
fn step(trainer: &mut Trainer, batch: &Batch, next: &Batch) -> train::Result<()> {
    let done = trainer.step_before(batch, Some(next));
    if let Err(error) = &done {
        let world = trainer.context().world();
        world.abort().raise(world.rank(), error.to_string());
    }
    done.map(drop)
}

// The memory without a buffer of that size, which was allocated before the first step and kept to the end.
fn without_buffer(mut memory: MemoryUse, bytes: usize) -> MemoryUse {
    let buffers = &mut memory.by_kind[MemoryKind::Buffers as usize];
    for total in [
        &mut memory.in_use,
        &mut memory.peak,
        &mut buffers.in_use,
        &mut buffers.peak,
        &mut buffers.at_peak,
    ] {
        *total -= bytes;
    }
    memory
}

/// The result for a candidate whose step was simulated.
pub(crate) fn outcome(request: &Request, candidate: &Candidate, step: Step) -> Outcome {
    let step_s = step.seconds();
    let flops = request.flop(candidate.memory.recomputes_all()) / step_s;
    let (machine, dtype) = (&request.machine, request.precision.dtype().name());
    let of_device = || machine.device.peak(dtype) * request.devices as f64;
    let peak = machine
        .peak_of(request.devices, dtype)
        .unwrap_or_else(of_device);
    Outcome {
        candidate: candidate.clone(),
        depths: step.depths,
        step_s,
        tokens_per_s: request.tokens() / step_s,
        flops,
        percent_of_peak: 100.0 * flops / peak,
        mfu: request.flop(false) / step_s / peak,
        stages: step.stages,
    }
}
