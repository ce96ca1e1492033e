//! Checkpoints that are written while the next steps run.

mod device;
mod disk;
mod frozen;

use bootstrap::World;
use disk::{Gate, Gated};
use parallel::data::Sharding;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tensor::Device;
use testkit::{config, digest_of, fixed_batch, ranks, try_ranks};
use train::{
    Config, Error,
    checkpoint::{Disk, Retention, path_of_step},
    config::Precision,
    trainer::{Attached, CheckpointWriter, Trainer},
};

const ALL: Retention = Retention {
    newest: 100,
    every: 0,
    best: false,
};

/// Grids on which ranks hold copies, shards and stages, each with and without sharded state.
const GRIDS: [(&str, bool); 5] = [
    ("x=1", false),
    ("x=2,z=2", false),
    ("data=2,pipeline=2", true),
    ("x=2,data=2", true),
    ("y=2,data=2,pipeline=2", false),
];

fn on(grid: &str, sharded: bool) -> Config {
    let mut config = config(Precision::F32);
    config.parallel.grid = grid.parse().unwrap();
    config.parallel.sharding = match sharded {
        true => Sharding::Optimiser,
        false => Sharding::None,
    };
    config
}

/// A rank that trains.
struct Rank {
    config: Config,
    trainer: Trainer,
}

impl Rank {
    fn new(config: &Config, world: &World, device: &Device) -> train::Result<Rank> {
        let context = config.context(world, device)?;
        Ok(Rank {
            config: config.clone(),
            trainer: config.trainer(&context)?,
        })
    }

    fn writer(&self, dir: &Path, disk: &Arc<Gated>) -> train::Result<CheckpointWriter> {
        let disk: Arc<dyn Disk> = disk.clone();
        CheckpointWriter::on(&self.trainer, dir, ALL, disk)
    }

    fn step(&mut self) -> train::Result<f64> {
        let step = self.trainer.next_step();
        let batch = fixed_batch(&self.trainer, &self.config, step)?;
        Ok(self.trainer.step(&batch)?.loss)
    }
}

/// The digest of a checkpoint, all of whose bytes have their sums.
fn state(dir: &Path, step: u64) -> String {
    digest_of(&path_of_step(dir, step)).1.to_string()
}

/// The states after these steps, each saved while its step waits.
fn saved_in_steps(config: &Config, steps: &[u64]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (path, shared, last) = (
        dir.path().to_owned(),
        config.clone(),
        *steps.iter().max().unwrap(),
    );
    ranks(world_size(config), move |world, device| {
        let mut rank = Rank::new(&shared, &world, &device)?;
        for _ in 0..last {
            rank.step()?;
            rank.trainer.save_with(&path, ALL, &Attached::default())?;
        }
        Ok(())
    });
    steps.iter().map(|step| state(dir.path(), *step)).collect()
}

fn world_size(config: &Config) -> usize {
    config.grid().unwrap().world_size()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn open_later(disk: &Arc<Gated>, rank: usize, delay: Duration) {
    let disk = disk.clone();
    if rank == 0 {
        thread::spawn(move || {
            thread::sleep(delay);
            disk.set(Gate::Open);
        });
    }
}

#[test]
fn steps_go_on_while_a_disk_writes() {
    for (grid, sharded) in GRIDS {
        let config = on(grid, sharded);
        let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Closed));
        let (path, shared, gate) = (dir.path().to_owned(), config.clone(), disk.clone());
        ranks(world_size(&config), move |world, device| {
            let mut rank = Rank::new(&shared, &world, &device)?;
            let mut writer = rank.writer(&path, &gate)?;
            rank.step()?;
            assert_eq!(writer.begin(&rank.trainer, &Attached::default())?, None);
            for _ in 0..4 {
                rank.step()?;
                assert_eq!(writer.poll()?, None, "the disk has not written");
            }
            assert_eq!(world.everyone().all_gather(&[])?.len(), world.size());
            if world.rank() == 0 {
                let in_place = names(&path).iter().any(|name| name.starts_with("step-"));
                assert!(!in_place, "a checkpoint that is not on disk has its name");
                gate.set(Gate::Open);
            }
            let done = loop {
                rank.step()?;
                if let Some(done) = writer.poll()? {
                    break done;
                }
            };
            assert_eq!((done.step, done.path), (1, path_of_step(&path, 1)));
            assert_eq!(writer.poll()?, None);
            Ok(())
        });
        assert_eq!(
            [state(dir.path(), 1)],
            *saved_in_steps(&config, &[1]),
            "{grid}"
        );
        assert_eq!(names(dir.path()), ["step-00000001"]);
    }
}

#[test]
fn the_next_checkpoint_waits_for_the_one_before() {
    for (grid, sharded) in GRIDS {
        let config = on(grid, sharded);
        let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Closed));
        let (path, shared) = (dir.path().to_owned(), config.clone());
        let waits = ranks(world_size(&config), move |world, device| {
            let mut rank = Rank::new(&shared, &world, &device)?;
            let mut writer = rank.writer(&path, &disk)?;
            let mut waits = Vec::new();
            for step in 1..=3 {
                rank.step()?;
                if step == 2 {
                    // Long enough for a rank that gets no processor until then to wait all the same.
                    open_later(&disk, world.rank(), Duration::from_secs(1));
                }
                let before = writer.begin(&rank.trainer, &Attached::default())?;
                waits.extend(before.map(|done| (done.step, done.waited)));
            }
            let last = writer.finish()?.expect("a bug: a checkpoint is behind");
            assert_eq!(last.step, 3);
            assert!(writer.buffer_bytes() <= rank.trainer.snapshot_bytes());
            Ok(waits)
        });
        let [(1, waited), (2, _)] = &waits[0][..] else {
            panic!("{grid}: {waits:?}");
        };
        assert!(*waited >= Duration::from_millis(200), "{grid}: {waited:?}");
        let states: Vec<String> = (1..=3).map(|step| state(dir.path(), step)).collect();
        assert_eq!(states, saved_in_steps(&config, &[1, 2, 3]), "{grid}");
    }
}

#[test]
fn a_copy_waits_for_the_streams() {
    for (grid, sharded) in [("x=2", false), ("data=2", true), ("x=2,data=2", true)] {
        let config = on(grid, sharded);
        let dir = tempfile::tempdir().unwrap();
        let (path, shared) = (dir.path().to_owned(), config.clone());
        let open = |_| device::open();
        testkit::ranks_with(world_size(&config), open, move |world, device| {
            let mut rank = Rank::new(&shared, &world, &device)?;
            let mut writer = rank.writer(&path, &Gated::new(Gate::Open))?;
            for _ in 0..2 {
                rank.step()?;
                // The first rank's copy is ready long before the last rank contributes its shard of the state.
                if world.rank() + 1 == world.size() {
                    thread::sleep(Duration::from_millis(100));
                }
                writer.begin(&rank.trainer, &Attached::default())?;
            }
            writer.finish()
        });
        let states = [state(dir.path(), 1), state(dir.path(), 2)];
        assert_eq!(states, *saved_in_steps(&config, &[1, 2]), "{grid}");
    }
}

#[test]
fn a_full_disk_is_said_at_the_next_poll_on_all_ranks() {
    let config = on("x=2,z=2", false);
    let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Open));
    let (path, shared) = (dir.path().to_owned(), config.clone());
    let failures = ranks(4, move |world, device| {
        let mut rank = Rank::new(&shared, &world, &device)?;
        let mut writer = rank.writer(&path, &disk)?;
        rank.step()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        writer.finish()?;
        world.everyone().barrier()?;
        disk.set(Gate::FullFor(2));
        rank.step()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        let failure = loop {
            rank.step()?;
            match writer.poll() {
                Ok(None) => {}
                ended => break ended.unwrap_err(),
            }
        };
        let of = match &failure {
            Error::Checkpoint(_) => world.rank(),
            Error::Peer { rank, .. } => *rank,
            other => panic!("{other}"),
        };
        Ok((rank.trainer.next_step(), of, failure.to_string()))
    });
    for (step, of, sentence) in &failures {
        assert_eq!((*step, *of), (failures[0].0, 2), "{failures:?}");
        assert!(
            sentence.contains("found room for 0 bytes, needs "),
            "{sentence}"
        );
    }
    assert_eq!(names(dir.path()), ["step-00000001"]);
    state(dir.path(), 1);
}

#[test]
fn numbers_that_are_not_finite_take_no_place() {
    let config = on("data=2", false);
    let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Open));
    let (path, shared) = (dir.path().to_owned(), config.clone());
    let sentences = ranks(2, move |world, device| {
        let mut rank = Rank::new(&shared, &world, &device)?;
        let mut writer = rank.writer(&path, &disk)?;
        rank.step()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        let weights = parallel::data::Part::Weights;
        rank.trainer
            .parameters()
            .write::<Error>(weights, |parameter| {
                Ok(vec![f64::NAN; parameter.index().num_elements()])
            })?;
        writer.finish()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        Ok(writer.finish().unwrap_err().to_string())
    });
    assert!(sentences[0].contains("not finite"), "{sentences:?}");
    assert!(sentences[1].contains("not finite"), "{sentences:?}");
    assert_eq!(names(dir.path()), ["step-00000001"]);
}

#[test]
fn an_error_of_a_rank_leaves_the_checkpoint_behind_complete() {
    let config = on("x=2", false);
    let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Closed));
    let (path, shared) = (dir.path().to_owned(), config.clone());
    let report = try_ranks(2, move |world, device| {
        let mut rank = Rank::new(&shared, &world, &device)?;
        let mut writer = rank.writer(&path, &disk)?;
        rank.step()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        open_later(&disk, world.rank(), Duration::from_millis(300));
        if world.rank() == 1 {
            return Err(Error::setting("test", "an error", "none"));
        }
        rank.step()
    });
    let report = report.unwrap_err();
    assert!(
        report.contains("rank 1 failed: test: found an error"),
        "{report}"
    );
    assert_eq!([state(dir.path(), 1)], *saved_in_steps(&config, &[1]));
}

#[test]
fn a_rank_that_panics_ends_the_others_while_a_disk_writes() {
    let config = on("x=2", false);
    let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Open));
    let (path, shared, begun): (PathBuf, _, _) =
        (dir.path().to_owned(), config.clone(), Instant::now());
    let report = try_ranks(2, move |world, device| {
        let mut rank = Rank::new(&shared, &world, &device)?;
        let mut writer = rank.writer(&path, &disk)?;
        rank.step()?;
        writer.begin(&rank.trainer, &Attached::default())?;
        writer.finish()?;
        rank.step()?;
        if world.rank() == 1 {
            panic!("before its copy");
        }
        writer.begin(&rank.trainer, &Attached::default())?;
        writer.finish().map(drop)
    });
    let report = report.unwrap_err();
    assert!(report.contains("before its copy"), "{report}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let left = names(dir.path());
    let complete: Vec<_> = left
        .iter()
        .filter(|name| name.starts_with("step-"))
        .collect();
    assert_eq!(complete, ["step-00000001"], "{left:?}");
    state(dir.path(), 1);
}
