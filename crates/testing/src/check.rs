//! Compares a model on every grid with itself on one rank.

use crate::{Difference, Error, Observed, Outcome, TrainingError, difference};
use bootstrap::local::{self, Options as Ranks};
use grid::{AxisOrder, Degrees, Grid, factorisations};
use nn::Builder;
use parallel::{
    Context, Model, Reproducible, Settings, data::Sharding, memory::ActivationMemory,
    pipeline::ScheduleKind,
};
use std::{fmt, sync::Arc, time::Duration};
use tensor::Device;
use train::{Trainer, batches::Batches, config::Precision, optimiser::AdamW, trainer::Options};

/// How a model is checked.
#[derive(Clone, Debug)]
pub struct Check {
    /// Rows of the global batch.
    pub batch: usize,
    /// Micro-batches per replica.
    pub micro_batches: usize,
    /// Training steps on each grid.
    pub steps: u64,
    /// The largest number of ranks: every factorisation of 1, 2, 4, ... up to it is tried.
    pub ranks: usize,
    /// The largest relative difference that passes.
    pub tolerance: f64,
    /// How micro-batches pass through stages.
    pub schedule: ScheduleKind,
    /// What segments keep between forward and backward, and where.
    pub memory: ActivationMemory,
    /// What replicas hold in shards.
    pub sharding: Sharding,
    /// Whether ranks of X hold runs of the vectors between layers.
    pub sequence_parallel: bool,
    /// What the bits depend on: with [`Reproducible::Grid`] and a tolerance of 0, every grid must give those of one rank.
    pub reproducible: Reproducible,
    /// How long a rank waits for others.
    pub timeout: Duration,
}

impl Default for Check {
    fn default() -> Self {
        Check {
            batch: 16,
            micro_batches: 2,
            steps: 3,
            ranks: 8,
            tolerance: 1e-9,
            schedule: ScheduleKind::default(),
            memory: ActivationMemory::default(),
            sharding: Sharding::None,
            sequence_parallel: false,
            reproducible: Reproducible::Run,
            timeout: Duration::from_secs(60),
        }
    }
}

/// The result of a check, grid by grid.
#[derive(Clone, Debug)]
pub struct Report {
    /// The grids on which the model was trained.
    pub grids: Vec<GridReport>,
    /// Grids that need more stages than the model has segments, or more rows than the batch has.
    pub skipped: Vec<Degrees>,
    /// The largest difference that passes.
    pub tolerance: f64,
}

/// The result on one grid.
#[derive(Clone, Debug)]
pub struct GridReport {
    /// The grid.
    pub degrees: Degrees,
    /// The difference from one rank.
    pub difference: Difference,
    /// Bytes per step that the busiest rank sends, if collectives run as rings.
    pub sent_bytes: u64,
    /// The peak number of bytes that tensors held, on the rank with the highest peak.
    pub peak_bytes: usize,
}

impl Report {
    /// Whether every grid agrees with one rank.
    pub fn passes(&self) -> bool {
        self.grids.iter().all(|grid| self.accepts(grid))
    }

    fn accepts(&self, grid: &GridReport) -> bool {
        grid.difference.largest().max(grid.difference.weight.0) <= self.tolerance
    }
}

/// Trains the model that `build` declares on every grid of up to [`Check::ranks`] ranks of the CPU, in f64 with
/// AdamW. Compares losses, norms, gradients and weights with those of one rank.
///
/// # Cost
/// As many trainings as there are factorisations: 84 for 8 ranks, with all ranks as threads of this process.
/// # Errors
/// [`Error::Serial`] if the model fails to train on one rank; [`Error::Grid`] with the first grid on which it fails;
/// [`Error::Differs`] with the full report if a grid computes other numbers.
pub fn check<M: Model + 'static>(
    build: impl Fn(&Builder) -> parallel::Result<M> + Send + Sync + 'static,
    data: impl Batches + 'static,
    options: &Check,
) -> Result<Report, Error> {
    let run = Run {
        build: Arc::new(build),
        data: Arc::new(data),
        options: options.clone(),
    };
    let (serial, num_segments) = run.on(Degrees::default()).map_err(Error::Serial)?;
    let powers = (0..usize::BITS).map(|power| 1usize << power);
    let counts = powers.take_while(|ranks| *ranks <= options.ranks);
    let mut report = Report {
        grids: Vec::new(),
        skipped: Vec::new(),
        tolerance: options.tolerance,
    };
    for degrees in counts.flat_map(factorisations) {
        let parts = degrees.pipeline * options.schedule.num_chunks();
        let rows = degrees.data * degrees.z * options.micro_batches;
        if parts > num_segments || rows > options.batch {
            report.skipped.push(degrees);
            continue;
        }
        let (found, _) = run
            .on(degrees)
            .map_err(|source| Error::Grid { degrees, source })?;
        report.grids.push(GridReport {
            degrees,
            difference: difference(&found, &serial),
            sent_bytes: sent_bytes(&found, &degrees),
            peak_bytes: found.peak_bytes.iter().copied().max().unwrap_or(0),
        });
    }
    match report.passes() {
        true => Ok(report),
        false => Err(Error::Differs(Box::new(report))),
    }
}

struct Run<F> {
    build: Arc<F>,
    data: Arc<dyn Batches>,
    options: Check,
}

impl<M: Model + 'static, F> Run<F>
where
    F: Fn(&Builder) -> parallel::Result<M> + Send + Sync + 'static,
{
    fn on(&self, degrees: Degrees) -> Result<(Outcome, usize), TrainingError> {
        let grid = Grid::new(degrees, AxisOrder::default());
        let grid = grid.expect("the factors of a number of ranks are a grid");
        let (build, data, check) = (self.build.clone(), self.data.clone(), self.options.clone());
        let ranks = Ranks::new(grid.world_size())
            .with_timeout(check.timeout)
            .with_grace(check.timeout);
        let seen = local::run(ranks, move |world| -> train::Result<(Observed, usize)> {
            let ordinal = world.local_rank();
            let cpu = cpu::Options {
                ordinal,
                ..cpu::Options::default()
            };
            let device = Device::new(cpu::open(cpu)?)?;
            let settings = Settings {
                reproducible: check.reproducible,
                sequence_parallel: check.sequence_parallel,
                ..Settings::default()
            };
            let context = Context::new(world, grid, device, settings)?;
            let options = Options {
                batch: check.batch,
                micro_batches: check.micro_batches,
                precision: Precision::F64,
                schedule: check.schedule,
                memory: check.memory.clone(),
                sharding: check.sharding,
                clip_norm: 1.0,
                ..Options::default()
            };
            let mut trainer = Trainer::new(&context, &*build, AdamW::new(1e-2), options)?;
            let batch = |trainer: &Trainer, _| trainer.batch(&*data);
            let seen = Observed::of(&mut trainer, check.steps, batch)?;
            Ok((seen, trainer.pipeline().cut().num_segments()))
        })?;
        let num_segments = seen.first().map_or(0, |(_, segments)| *segments);
        let ranks = seen.into_iter().map(|(seen, _)| seen).collect();
        Ok((Outcome::join(ranks)?, num_segments))
    }
}

fn sent_bytes(outcome: &Outcome, degrees: &Degrees) -> u64 {
    let of_rank = |counters: &parallel::Counters| {
        let sent = counters.iter().map(|(axis, operation, _, count)| {
            operation.ring_bytes(count.bytes, degrees.get(axis))
        });
        sent.sum::<f64>() as u64
    };
    outcome.counters.iter().map(of_rank).max().unwrap_or(0)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.grids.iter().filter(|grid| !self.accepts(grid)).count();
        let (all, tolerance) = (self.grids.len(), self.tolerance);
        match failed {
            0 => write!(f, "{all} grids agree with one rank, within {tolerance:.0e}")?,
            _ => write!(
                f,
                "{failed} of {all} grids differ from one rank by more than {tolerance:.0e}"
            )?,
        }
        for grid in &self.grids {
            let mark = if self.accepts(grid) {
                ""
            } else {
                "  <- differs"
            };
            write!(
                f,
                "\n{:<44} sends {:>10}, holds {:>10}; {}{mark}",
                grid.degrees.to_string(),
                hal::error::Bytes(grid.sent_bytes as usize).to_string(),
                hal::error::Bytes(grid.peak_bytes).to_string(),
                grid.difference,
            )?;
        }
        match self.skipped.len() {
            0 => Ok(()),
            skipped => write!(
                f,
                "\n{skipped} grids skipped: more stages than segments, or more shares than rows"
            ),
        }
    }
}
