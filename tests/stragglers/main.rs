//! A rank that becomes slow while a run trains is named, once; the losses are those of a run without measurements.

mod device;

use hal::lock;
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tensor::Device;
use testkit::{config_of_bytes, ranks, run_of_bytes};
use train::{
    Observer, Stop, Summary,
    metrics::{self, Record},
    run::{PATIENCE, Run, SlowRank, SpeedRecord, run},
};

const STEPS: u64 = 8;

/// Makes a rank slow from a step on, and fast again from another.
#[derive(Default)]
struct Watching {
    slow_steps: Option<std::ops::Range<u64>>,
    is_slow: Arc<AtomicBool>,
    named: Mutex<Vec<(u64, usize)>>,
}

impl Observer for Watching {
    fn step(&self, record: &Record) {
        let steps = self.slow_steps.as_ref();
        let is_slow = steps.is_some_and(|steps| steps.contains(&(record.step + 1)));
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    fn straggler(&self, slow: &SlowRank, record: &SpeedRecord) {
        assert_eq!(slow.times, PATIENCE);
        lock(&self.named).push((record.step, slow.rank));
    }
}

fn of(grid: &str, every: u64, dir: &Path) -> Run {
    let mut config = config_of_bytes(grid.parse().unwrap());
    let training = &mut config.training;
    (training.steps, training.checkpoint_every) = (STEPS, 0);
    // Ranks share the machine with other programs, which make some several times slower.
    (training.straggler_every, training.straggler_below) = (every, 0.05);
    run_of_bytes(config, dir)
}

/// Trains where the last rank is slow in some steps.
fn train(this: &Run, watching: Watching) -> (Vec<Summary>, Arc<Watching>) {
    let _lock = this.prepare().unwrap();
    let num_ranks = this.config.grid().unwrap().world_size();
    let watching = Arc::new(watching);
    let (this, observer) = (this.clone(), watching.clone());
    let summaries = ranks(num_ranks, move |world, _| {
        let options = cpu::Options {
            ordinal: world.local_rank(),
            ..cpu::Options::default()
        };
        let mut device = cpu::open(options)?;
        let is_slow = match world.rank() == num_ranks - 1 {
            true => observer.is_slow.clone(),
            false => Arc::default(),
        };
        device = device::wrap(device, is_slow);
        run(
            &world,
            &Device::new(device)?,
            &this,
            &*observer,
            &Stop::default(),
        )
    });
    (summaries, watching)
}

#[test]
fn a_replica_that_becomes_slow_is_named_once() {
    named_once("x=2,data=2");
}

#[test]
fn a_stage_that_becomes_slow_is_named_once() {
    named_once("pipeline=3");
}

fn named_once(grid: &str) {
    let dir = tempfile::tempdir().unwrap();
    let this = of(grid, 1, dir.path());
    // The flag is set after the record of the step before, whose measurement is over.
    let (_, watching) = train(
        &this,
        Watching {
            slow_steps: Some(3..7),
            ..Watching::default()
        },
    );
    let last = this.config.grid().unwrap().world_size() - 1;
    assert_eq!(*lock(&watching.named), [(5, last)], "{grid}");
    let records: Vec<SpeedRecord> = metrics::read(&dir.path().join("speeds.jsonl")).unwrap();
    let times: Vec<u32> = records
        .iter()
        .map(|record| {
            let of_last = record.slow.iter().find(|slow| slow.rank == last);
            of_last.map_or(0, |slow| slow.times)
        })
        .collect();
    assert_eq!(times, [0, 0, 1, 2, 3, 4, 0, 0], "{grid}");
    let steps: Vec<u64> = records.iter().map(|record| record.step).collect();
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>(), "{grid}");
}

#[test]
fn measurements_change_no_number() {
    let losses = |every| {
        let dir = tempfile::tempdir().unwrap();
        let (_, watching) = train(&of("x=2,z=2", every, dir.path()), Watching::default());
        assert!(lock(&watching.named).is_empty());
        assert_eq!(dir.path().join("speeds.jsonl").exists(), every > 0);
        let records: Vec<Record> = metrics::read(&dir.path().join("metrics.jsonl")).unwrap();
        let losses = records.iter().map(|record| record.loss.to_bits());
        losses.collect::<Vec<_>>()
    };
    assert_eq!(losses(0), losses(3));
}
