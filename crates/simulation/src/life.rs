//! One life of a job: its ranks train from the newest checkpoint, or from the beginning, until they have done all steps or fail.

use crate::network::Network;
use crate::plan::{Saves, TIMEOUT, world_size};
use bootstrap::{Failure, World, local};
use checkpoint::{Disk, Reader, Retention};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tensor::Device;
use train::trainer::{Attached, CheckpointWriter, LocalFolder, recover};
use train::{Config, Error, Trainer};

/// The checkpoints that stay.
pub const KEPT: Retention = Retention {
    newest: 2,
    every: 0,
    best: false,
};

/// What the ranks of a life do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The configuration.
    pub config: Config,
    /// How checkpoints are written.
    pub saves: Saves,
    /// The steps between them.
    pub every: u64,
    /// Where the run's checkpoints are.
    pub dir: PathBuf,
    /// Where the nodes' own are.
    pub local: PathBuf,
    /// On what the run's are written.
    pub disk: Arc<dyn Disk>,
    /// Over what its ranks exchange bytes, unless they share memory.
    pub network: Option<Arc<Network>>,
    /// A rank that ends before a step, with an error, or else with a panic.
    pub ends: Option<(usize, u64, bool)>,
}

/// What a life has left in the memory of those who watch it.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The losses that rank 0 has seen, by their steps.
    pub losses: Vec<(u64, u64)>,
    /// The checkpoints whose completion rank 0 has seen.
    pub saved: Vec<u64>,
    /// The step at which the life began.
    pub begun_at: Option<u64>,
}

/// A record that outlives what happens to the ranks. No rank has it while it gives up its turn.
pub type Recorder = Arc<Mutex<Record>>;

fn note(recorder: &Recorder, note: impl FnOnce(&mut Record)) {
    note(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The names in a folder, in order.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// How a job has ended.
pub(crate) type Ended = Result<(), Box<Failure<Error>>>;

/// Runs the job, each rank on a node of its own.
///
/// # Errors
/// As the launcher reports it.
pub(crate) fn run(job: &Job, recorder: &Recorder) -> Ended {
    let (job, recorder) = (job.clone(), recorder.clone());
    local::run(options(&job), move |world| {
        let world = match &job.network {
            Some(network) => network.connect(&world),
            None => world,
        };
        let device = Device::new(cpu::open(cpu::Options {
            ordinal: world.local_rank(),
            ..cpu::Options::default()
        })?)?;
        Rank::begin(&job, &world, &device)?.train(&recorder)
    })
    .map(drop)
    .map_err(Box::new)
}

fn options(job: &Job) -> local::Options {
    local::Options::new(world_size(&job.config))
        .with_timeout(TIMEOUT)
        .with_ranks_per_node(1)
}

/// Copies the newest checkpoint of the nodes' own together, as a job does before it resumes.
///
/// # Errors
/// As the launcher reports it.
pub(crate) fn recover_local(job: &Job) -> Ended {
    let shared = job.clone();
    local::run(options(job), move |world| {
        recover(&world, &shared.dir, &LocalFolder::new(&shared.local)).map(drop)
    })
    .map(drop)
    .map_err(Box::new)
}

/// A rank that trains.
struct Rank {
    job: Job,
    world: World,
    trainer: Trainer,
    writer: CheckpointWriter,
    local: Option<CheckpointWriter>,
}

impl Rank {
    fn begin(job: &Job, world: &World, device: &Device) -> train::Result<Rank> {
        let mut trainer = job.config.trainer(&job.config.context(world, device)?)?;
        // All ranks must find the same.
        let finds_one = world.rank() == 0 && Reader::open(&job.dir).is_ok();
        if world.everyone().any(finds_one)? {
            trainer.resume(&job.dir)?;
        }
        let writer = CheckpointWriter::on(&trainer, &job.dir, KEPT, job.disk.clone())?;
        let local = match job.saves {
            Saves::BehindAndLocal => Some(CheckpointWriter::local(
                &trainer,
                &LocalFolder::new(&job.local),
            )?),
            _ => None,
        };
        Ok(Rank {
            job: job.clone(),
            world: world.clone(),
            trainer,
            writer,
            local,
        })
    }

    fn train(mut self, recorder: &Recorder) -> train::Result<()> {
        let first = self.world.rank() == 0;
        if first {
            note(recorder, |record| {
                record.begun_at = Some(self.trainer.next_step())
            });
        }
        while self.trainer.next_step() < self.job.config.training.steps {
            let step = self.trainer.next_step();
            self.end_if_planned(step)?;
            let batch = testkit::fixed_batch(&self.trainer, &self.job.config, step)?;
            let loss = self.trainer.step(&batch)?.loss;
            if first {
                note(recorder, |record| {
                    record.losses.push((step, loss.to_bits()))
                });
            }
            let saved = self.save()?;
            if first {
                note(recorder, |record| record.saved.extend(saved));
            }
        }
        let last = self.writer.finish()?.map(|done| done.step);
        if first {
            note(recorder, |record| record.saved.extend(last));
        }
        // Those on the nodes' own disks are no promise.
        if let Some(local) = &mut self.local {
            local.finish()?;
        }
        Ok(())
    }

    fn end_if_planned(&self, step: u64) -> train::Result<()> {
        match self.job.ends {
            Some((rank, at, is_error)) if (rank, at) == (self.world.rank(), step) => match is_error
            {
                true => Err(Error::setting("planned", "an error", "none")),
                false => panic!("a planned panic"),
            },
            _ => Ok(()),
        }
    }

    /// Saves after a step whose turn it is; returns the steps of checkpoints that are complete.
    fn save(&mut self) -> train::Result<Vec<u64>> {
        let done = self.trainer.next_step();
        let is_due = done.is_multiple_of(self.job.every) || done == self.job.config.training.steps;
        let attached = Attached::default();
        if let Some(local) = &mut self.local {
            local.begin(&self.trainer, &attached)?;
        }
        let mut complete = match is_due {
            true => vec![self.writer.begin(&self.trainer, &attached)?],
            false => vec![self.writer.poll()?],
        };
        if self.job.saves == Saves::InStep {
            complete.push(self.writer.finish()?);
        }
        Ok(complete
            .into_iter()
            .flatten()
            .map(|done| done.step)
            .collect())
    }
}
