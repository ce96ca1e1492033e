//! Frozen weights are read from the device when a checkpoint has to write them, and not copied.

use super::{
    ALL, GRIDS, Rank,
    disk::{Gate, Gated},
    names, on, saved_in_steps, state, world_size,
};
use grid::IndexBox;
use std::{fs, os::unix::fs::MetadataExt, path::Path};
use testkit::{ranks, try_ranks};
use train::{
    Config, Result,
    checkpoint::{Reader, path_of_step},
    config::{FrozenWeights, PlaceKind, Precision},
    trainer::{Attached, CheckpointWriter, Weights},
};

fn adapted(grid: &str, sharded: bool) -> Config {
    let mut config = on(grid, sharded);
    config.tuning.adapter_rank = 2;
    config.tuning.adapter_targets = vec!["attention.*".into(), "mlp.*".into()];
    config
}

// The numbers of names that the files of frozen weights in a checkpoint have.
fn num_names(dir: &Path, step: u64) -> Vec<u64> {
    let folder = path_of_step(dir, step);
    let files = names(&folder).into_iter();
    let frozen = files.filter(|name| name.starts_with("frozen-"));
    frozen
        .map(|name| fs::metadata(folder.join(name)).unwrap().nlink())
        .collect()
}

#[test]
fn they_are_written_within_a_step_and_once() {
    let edits: [fn(&mut Config); 3] = [
        |_| {},
        |config| config.placement.weights = PlaceKind::Host,
        |config| config.tuning.frozen_weights = FrozenWeights::Nf4,
    ];
    for (case, (grid, sharded)) in GRIDS.into_iter().enumerate() {
        let mut config = adapted(grid, sharded);
        edits[case % 3](&mut config);
        let (dir, disk) = (tempfile::tempdir().unwrap(), Gated::new(Gate::Open));
        let (path, shared) = (dir.path().to_owned(), config.clone());
        ranks(world_size(&config), move |world, device| {
            let mut rank = Rank::new(&shared, &world, &device)?;
            let mut writer = rank.writer(&path, &disk)?;
            let mut save = |rank: &mut Rank, is_within: bool| -> Result<u64> {
                let one = |is_open: bool| {
                    world.everyone().all_gather(&[])?;
                    if world.rank() == 0 {
                        disk.set(if is_open { Gate::Open } else { Gate::Closed });
                    }
                    world.everyone().all_gather(&[])
                };
                rank.step()?;
                one(is_within)?;
                assert_eq!(writer.begin(&rank.trainer, &Attached::default())?, None);
                // One that is behind waits for the disk.
                let done = writer.poll()?;
                assert_eq!(done.is_some(), is_within, "{}", rank.trainer.next_step());
                one(true)?;
                let done = match done {
                    Some(done) => done,
                    None => writer.finish()?.unwrap(),
                };
                assert!(writer.buffer_bytes() <= rank.trainer.snapshot_bytes());
                Ok(done.step)
            };
            assert_eq!(save(&mut rank, true)?, 1);
            assert_eq!(save(&mut rank, false)?, 2);
            // A run that resumes takes over the file of the checkpoint that it reads.
            let reader = Reader::open(path_of_step(&path, 2))?;
            let all: Vec<_> = reader.names().map(str::to_owned).collect();
            rank.trainer.resume(reader.path())?;
            assert!(all.iter().any(|name| name.contains("lora")));
            assert_eq!(save(&mut rank, false)?, 3);
            assert_eq!(save(&mut rank, false)?, 4);
            // One file is gone from that checkpoint and from the last one.
            if world.rank() == 0 {
                for step in [2, 4] {
                    let folder = path_of_step(&path, step);
                    let mut all = names(&folder).into_iter();
                    let first = all.find(|name| name.starts_with("frozen-")).unwrap();
                    fs::remove_file(folder.join(first)).unwrap();
                }
            }
            assert_eq!(save(&mut rank, true)?, 5);
            // Whoever writes them has other weights, even if they are the same.
            let reader = Reader::open(path_of_step(&path, 5))?;
            rank.trainer.load_weights(&reader, &[])?;
            assert_eq!(save(&mut rank, true)?, 6);
            Ok(())
        });
        let all = [1, 2, 3, 4, 5, 6].map(|step| num_names(dir.path(), step));
        let num_files = all[0].len();
        let but_one = |of_it: u64, others: u64| {
            let mut numbers = vec![others; num_files];
            numbers[0] = of_it;
            numbers
        };
        assert_eq!(all[0], but_one(2, 5), "{grid}");
        assert_eq!(all[1], vec![5; num_files - 1], "{grid}");
        assert_eq!(all[4], but_one(1, 5), "{grid}");
        assert_eq!(all[5], vec![1; num_files], "{grid}");
        let expected = saved_in_steps(&config, &[1, 3, 5, 6]);
        let found = [1, 3, 5, 6].map(|step| state(dir.path(), step));
        assert_eq!(found, *expected, "{grid}");
    }
}

#[test]
fn a_run_that_resumes_writes_those_that_it_rounds_or_cuts_otherwise() {
    let plain = adapted("x=2", false);
    let changed = |edit: fn(&mut Config)| {
        let mut config = plain.clone();
        edit(&mut config);
        config
    };
    let nf4 = changed(|config| config.tuning.frozen_weights = FrozenWeights::Nf4);
    let bf16 = changed(|config| config.training.precision = Precision::Bf16);
    let cut = changed(|config| config.parallel.grid = "y=2".parse().unwrap());
    for (first, second, names) in [
        (&plain, &plain, 2),
        (&plain, &nf4, 1),
        (&nf4, &nf4, 2),
        (&nf4, &plain, 2),
        (&plain, &bf16, 1),
        (&bf16, &bf16, 2),
        (&bf16, &plain, 2),
        (&plain, &cut, 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for config in [first, second] {
            let (path, config) = (dir.path().to_owned(), config.clone());
            ranks(2, move |world, device| {
                let mut rank = Rank::new(&config, &world, &device)?;
                if path_of_step(&path, 1).exists() {
                    rank.trainer.resume(&path)?;
                }
                // Rank 0 may be about to make the first one.
                world.everyone().all_gather(&[])?;
                rank.step()?;
                rank.trainer.save_with(&path, ALL, &Attached::default())
            });
        }
        assert_eq!(num_names(dir.path(), 1), [names; 2]);
        assert_eq!(num_names(dir.path(), 2), [names; 2]);
        state(dir.path(), 2);
    }
}

#[test]
fn no_copy_of_them_is_made() {
    let [all, adapted] = [on("x=1", false), adapted("x=1", false)].map(|config| {
        ranks(1, move |world, device| {
            let rank = Rank::new(&config, &world, &device)?;
            let parameters = rank.trainer.parameters().parameters().iter();
            let trained = parameters.filter(|parameter| !parameter.is_frozen());
            let elements: usize = trained.map(|parameter| parameter.num_elements()).sum();
            // Weights and two moments, in f32.
            assert_eq!(rank.trainer.snapshot_bytes(), 12 * elements);
            Ok(elements)
        })[0]
    });
    assert!(adapted < all);
}

/// Weights of which one is not a number.
struct Spoilt(Reader, &'static str);

impl Weights for Spoilt {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn names(&self) -> Vec<String> {
        Weights::names(&self.0)
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.shape(name)
    }

    fn read(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        let mut numbers = Weights::read(&self.0, name, shape, index)?;
        if name == self.1 {
            numbers[0] = f64::NAN;
        }
        Ok(numbers)
    }
}

#[test]
fn one_that_is_not_finite_is_refused_and_nothing_is_left() {
    let name = "blocks.1.mlp.up.weight";
    for grid in ["x=1", "x=2,data=2"] {
        let (config, dir) = (adapted(grid, false), tempfile::tempdir().unwrap());
        let path = dir.path().to_owned();
        let report = try_ranks(world_size(&config), move |world, device| {
            let mut rank = Rank::new(&config, &world, &device)?;
            rank.trainer.save_with(&path, ALL, &Attached::default())?;
            let spoilt = Spoilt(Reader::open(&path)?, name);
            rank.trainer.load_weights(&spoilt, &[])?;
            let mut writer = CheckpointWriter::new(&rank.trainer, &path.join("behind"), ALL)?;
            writer.begin(&rank.trainer, &Attached::default())?;
            let refused = writer.finish().unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
            rank.trainer.save_with(&path, ALL, &Attached::default())
        });
        let report = report.unwrap_err();
        assert!(report.contains(name), "{grid}: {report}");
        assert_eq!(names(dir.path()), ["behind", "step-00000000"], "{grid}");
        assert_eq!(names(&dir.path().join("behind")), [""; 0], "{grid}");
    }
}
