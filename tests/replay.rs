//! A rank that is run alone computes what it computed among the others.

use bootstrap::{World, local, world::RankLocation};
use parallel::data::{Part, Sharding};
use replay::{Tape, TapeWriter, record, replay};
use serde_json::json;
use std::{path::Path, sync::Arc};
use tensor::Device;
use testkit::{config, fixed_batch};
use train::{Config, Error, config::Precision};

/// The losses, and the bits of the weights and moments that the rank holds.
#[derive(Debug, PartialEq)]
struct Seen {
    losses: Vec<f64>,
    state: Vec<u64>,
}

fn train(config: &Config, world: &World, device: &Device) -> train::Result<Seen> {
    let context = config.context(world, device)?;
    let mut trainer = config.trainer(&context)?;
    let mut losses = Vec::new();
    for step in 0..config.training.steps {
        let batch = fixed_batch(&trainer, config, step)?;
        losses.push(trainer.step(&batch)?.loss);
    }
    let mut state = Vec::new();
    for part in [Part::Weights, Part::State(0), Part::State(1)] {
        trainer.parameters().read::<Error>(part, |_, numbers| {
            state.extend(numbers.into_iter().map(f64::to_bits));
            Ok(())
        })?;
    }
    Ok(Seen { losses, state })
}

fn of(grid: &str) -> Config {
    let mut config = config(Precision::F32);
    config.training.steps = 3;
    config.parallel.grid = grid.parse().unwrap();
    config
}

fn open() -> Arc<dyn hal::Device> {
    cpu::open(cpu::Options::default()).unwrap()
}

// Trains on the grid, recording one rank; returns what it has seen, and its place.
fn recorded(config: &Config, rank: usize, file: &Path) -> (Seen, RankLocation) {
    recorded_by(config, rank, file, train)
}

fn recorded_by(
    config: &Config,
    rank: usize,
    file: &Path,
    train: impl Fn(&Config, &World, &Device) -> train::Result<Seen> + Clone + Send + Sync + 'static,
) -> (Seen, RankLocation) {
    let ranks = config.grid().unwrap().world_size();
    let (config, file) = (config.clone(), file.to_owned());
    let mut all = local::run(local::Options::new(ranks), move |world: World| {
        let (world, device) = match world.rank() == rank {
            true => {
                let tape = TapeWriter::create(&file, &json!({})).unwrap();
                record(&world, open(), &Arc::new(tape))?
            }
            false => (world, open()),
        };
        let seen = train(&config, &world, &Device::new(device)?)?;
        Ok::<_, Error>((seen, world.place()))
    })
    .unwrap_or_else(|failure| panic!("{}", failure.report()));
    all.swap_remove(rank)
}

fn replayed(config: &Config, place: RankLocation, file: &Path) -> train::Result<Seen> {
    let tape = Arc::new(Tape::open(file).unwrap());
    let (world, device) = replay(place, open(), &tape)?;
    train(config, &world, &Device::new(device)?)
}

#[test]
fn every_rank_of_every_kind_of_grid_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for grid in [
        "x=2,y=2",
        "z=2,data=2",
        "pipeline=2,x=2",
        "y=2,z=2,pipeline=2",
        "data=4",
    ] {
        for reproducible in [parallel::Reproducible::Run, parallel::Reproducible::Grid] {
            let mut config = of(grid);
            config.training.reproducible = reproducible.into();
            if grid.contains("data") {
                config.parallel.sharding = Sharding::Optimiser;
            }
            for rank in [0, 3] {
                let file = folder.path().join("tape");
                let (seen, place) = recorded(&config, rank, &file);
                let again = replayed(&config, place, &file);
                let again = again.unwrap_or_else(|error| panic!("rank {rank} of {grid}: {error}"));
                assert_eq!(again, seen, "rank {rank} of {grid}");
                count += 1;
            }
        }
    }
    println!("{count} recorded ranks replayed");
}

// The first rank of a job completes its checkpoints. Alone it has the file of no other rank.
#[test]
fn a_rank_that_writes_checkpoints_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let config = of("z=2,data=2");
    for rank in [0, 3] {
        let (tape, dir) = (folder.path().join("tape"), folder.path().join("run"));
        let at = dir.clone();
        let saving = move |config: &Config, world: &World, device: &Device| {
            let seen = train(config, world, device)?;
            let mut trainer = config.trainer(&config.context(world, device)?)?;
            trainer.step(&fixed_batch(&trainer, config, 0)?)?;
            trainer.save(&at)?;
            Ok(seen)
        };
        let (seen, place) = recorded_by(&config, rank, &tape, saving.clone());
        let checkpoint = dir.join("step-00000001");
        assert!(checkpoint.exists());
        std::fs::remove_dir_all(&dir).unwrap();
        let tape = Arc::new(Tape::open(&tape).unwrap());
        let (world, device) = replay(place, open(), &tape).unwrap();
        let again = saving(&config, &world, &Device::new(device).unwrap()).unwrap();
        assert_eq!(again, seen, "rank {rank}");
        assert!(!checkpoint.exists(), "a part of a checkpoint as a whole");
    }
}

#[test]
fn every_schedule_of_a_fixed_order_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    for schedule in [
        "gpipe",
        "1f1b",
        "interleaved:2",
        "zb-h1",
        "zb-v",
        "pipedream-2bw",
        "pipedream",
    ] {
        let mut config = of("pipeline=2,data=2");
        config.training.micro_batches = 4;
        config.parallel.schedule = schedule.parse().unwrap();
        // A table on two stages would make `pipedream` wait.
        testkit::edit_gpt(&mut config, |model| model.tied_head = false);
        let file = folder.path().join("tape");
        let (seen, place) = recorded(&config, 1, &file);
        assert_eq!(replayed(&config, place, &file).unwrap(), seen, "{schedule}");
    }
}

#[test]
fn a_rank_that_computes_something_else_is_told_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tape");
    let config = of("x=2,y=2");
    let (_, place) = recorded(&config, 2, &file);
    let mut other = config.clone();
    other.training.learning_rate *= 1.5;
    let error = replayed(&other, place, &file).unwrap_err().to_string();
    assert!(error.contains("another value sent by"), "{error}");
    let mut other = config.clone();
    other.training.steps = 4;
    let error = replayed(&other, place, &file).unwrap_err().to_string();
    assert!(error.contains("ends here"), "{error}");
    let mut other = config;
    other.parallel.grid = "x=4".parse().unwrap();
    let error = replayed(&other, place, &file).unwrap_err().to_string();
    assert!(error.contains("the recording"), "{error}");
}

#[test]
fn a_tape_that_was_cut_replays_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tape");
    let config = of("data=2");
    let (_, place) = recorded(&config, 1, &file);
    let whole = std::fs::read(&file).unwrap();
    for cut in (0..whole.len()).step_by(whole.len() / 40 + 1) {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let Ok(tape) = Tape::open(&file) else {
            continue;
        };
        let (world, device) = match replay(place, open(), &Arc::new(tape)) {
            Ok(both) => both,
            Err(error) => {
                assert!(error.to_string().contains("the recording"), "{error}");
                continue;
            }
        };
        let error = train(&config, &world, &Device::new(device).unwrap()).unwrap_err();
        assert!(error.to_string().contains("ecording"), "{cut}: {error}");
    }
}
