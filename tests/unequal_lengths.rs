//! Micro-batches whose rows are longer than those of others train as they do on one rank, through every schedule and on every axis.

use ::train::{Config, config::Precision, data::Batch};
use hal::random::Key;
use parallel::Reproducible;
use std::ops::Range;
use testkit::{Outcome, SCHEDULES, assert_near, bits, config, edit_gpt, on, train_rows};

const F64: f64 = 1e-9;

/// Rows of the batch, and of each run of rows of one length.
const ROWS: usize = 16;
const RUN: usize = 4;
/// Tokens of the rows of each run. No axis divides all of them.
const LENGTHS: [usize; ROWS / RUN] = [16, 5, 9, 12];

fn gpt2(precision: Precision) -> Config {
    let mut config = config(precision);
    (config.training.steps, config.training.clip_norm) = (3, 0.0);
    (config.training.batch, config.training.micro_batches) = (ROWS, ROWS / RUN);
    edit_gpt(&mut config, |model| {
        (model.context, model.vocabulary, model.layers) = (LENGTHS[0], 8, 4);
    });
    config
}

fn token(step: u64, row: usize, place: usize) -> u32 {
    let key = Key::new(step, "tokens", row as u64);
    key.block(place as u64)[0] % 8
}

/// Rows that are as long as their run says; each step begins with another length.
fn ragged(step: u64, rows: Range<usize>) -> train::Result<train::batches::Rows> {
    let length = LENGTHS[(rows.start / RUN + step as usize) % LENGTHS.len()];
    let all = |shift: usize| {
        let rows = rows.clone();
        rows.flat_map(move |row| (0..length).map(move |place| token(step, row, place + shift)))
    };
    let batch = Batch {
        inputs: all(0).collect(),
        targets: all(1).collect(),
    };
    Ok(batch.into_rows(length))
}

fn trained(config: &Config) -> Outcome {
    train_rows(config, ragged)
}

/// Grids whose ranks each hold rows of one length in a micro-batch.
const GRIDS: [&str; 8] = [
    "x=2",
    "y=2",
    "z=2",
    "context=2",
    "pipeline=2",
    "z=2,pipeline=2",
    "x=2,y=2,pipeline=2",
    "x=2,context=2,pipeline=2",
];

#[test]
fn every_grid_trains_as_one_rank() {
    let config = gpt2(Precision::F64);
    let expected = trained(&config);
    for grid in GRIDS {
        let found = trained(&on(&config, grid.parse().unwrap()));
        assert_near(&found, &expected, F64, grid);
    }
    // Two replicas, each with two of the runs.
    let mut config = config.clone();
    config.training.micro_batches = 2;
    for grid in ["data=2", "data=2,pipeline=2"] {
        let found = trained(&on(&config, grid.parse().unwrap()));
        assert_near(&found, &expected, F64, grid);
    }
}

#[test]
fn every_schedule_trains_as_one_rank() {
    let config = gpt2(Precision::F64);
    let expected = trained(&config);
    for schedule in SCHEDULES {
        for recompute in [false, true] {
            let mut config = on(&config, "pipeline=2".parse().unwrap());
            config.parallel.schedule = schedule.parse().unwrap();
            config.training.recompute = recompute.into();
            assert_near(&trained(&config), &expected, F64, schedule);
        }
    }
}

#[test]
fn every_grid_has_the_bits_of_one_rank() {
    let mut config = gpt2(Precision::Bf16);
    config.training.reproducible = Reproducible::Grid.into();
    let expected = trained(&config);
    for grid in GRIDS {
        let found = trained(&on(&config, grid.parse().unwrap()));
        bits::check(&found, &expected, grid);
    }
}

// A mean over the rows: the means of runs of as many rows, each trained alone, have the same mean.
#[test]
fn the_loss_is_the_mean_over_rows() {
    let mut config = gpt2(Precision::F64);
    config.training.steps = 1;
    let expected = trained(&config);
    (config.training.batch, config.training.micro_batches) = (RUN, 1);
    let alone = |run: usize| {
        train_rows(&config, move |step, rows: Range<usize>| {
            ragged(step, rows.start + run * RUN..rows.end + run * RUN)
        })
    };
    let losses: f64 = (0..LENGTHS.len()).map(|run| alone(run).losses[0]).sum();
    let mean = losses / LENGTHS.len() as f64;
    assert!((expected.losses[0] - mean).abs() <= F64);
}
