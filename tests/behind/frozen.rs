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
    config::{FrozenWeights, PlaceKind},
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
            // Whoever writes them has other weights, even if they are the same.
            let reader = Reader::open(path_of_step(&path, 2))?;
            let all: Vec<_> = reader.names().map(str::to_owned).collect();
            rank.trainer.resume(reader.path())?;
            assert!(all.iter().any(|name| name.contains("lora")));
            assert_eq!(save(&mut rank, true)?, 3);
            assert_eq!(save(&mut rank, false)?, 4);
            if world.rank() == 0 {
                for name in names(&path_of_step(&path, 4)) {
                    if name.starts_with("frozen-") {
                        fs::remove_file(path_of_step(&path, 4).join(name)).unwrap();
                        break;
                    }
                }
            }
            assert_eq!(save(&mut rank, true)?, 5);
            Ok(())
        });
        let num_files = num_names(dir.path(), 1).len();
        assert_eq!(num_names(dir.path(), 1), vec![2; num_files], "{grid}");
        let mut of_third = num_names(dir.path(), 3);
        of_third.sort();
        // That of the rank whose file was removed has one name, and a new file.
        assert_eq!(of_third[1..], vec![3; num_files - 1], "{grid}");
        assert_eq!(
            (of_third[0], num_names(dir.path(), 4).len()),
            (1, num_files - 1)
        );
        let expected = saved_in_steps(&config, &[1, 2, 3, 5]);
        let found = [1, 2, 3, 5].map(|step| state(dir.path(), step));
        assert_eq!(found, *expected, "{grid}");
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
