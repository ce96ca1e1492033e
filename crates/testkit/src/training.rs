//! Training as a pure function: a configuration in, losses and full gradients out.

use crate::{contract::Open, nodes::ranks_on, ranks, vendors::ranks_with};
use bootstrap::World;
use families::GptConfig;
use grid::{Axis, Degrees, factorisations};
use parallel::{Batch, Reproducible};
use std::{ops::Range, path::Path};
use tensor::Device;
use testing::{Observed, Outcome};
use train::{Config, Trainer, config::Precision};

/// A small model and batch that fit every grid of up to 8 ranks but for its 6 tokens, which Context can cut in two or three
/// parts, with sizes that do not divide wherever that is allowed.
pub fn config(precision: Precision) -> Config {
    let model = GptConfig {
        layers: 4,
        hidden: 32,
        heads: 8,
        context: 6,
        vocabulary: 37,
        ..GptConfig::default()
    };
    let mut config = Config::new(model.into());
    config.training.batch = 16;
    config.training.micro_batches = 2;
    config.training.precision = precision;
    config.training.warmup_steps = 3;
    config.training.steps = 10;
    config.training.learning_rate = 1e-2;
    config.training.clip_norm = 0.7;
    // Tests of the bits that no grid changes ask for them.
    config.training.reproducible = Reproducible::Run.into();
    config
}

/// All grids of these numbers of ranks that fit [`config`]: on 8 ranks 50 of 56.
pub fn all_grids(ranks: &[usize]) -> Vec<Degrees> {
    let grids = ranks.iter().flat_map(|&ranks| factorisations(ranks));
    grids.filter(|grid| grid.context <= 3).collect()
}

/// Three axes that are cut in two on 8 ranks: every two axes are in one of these.
const TOGETHER: [[Axis; 3]; 6] = [
    [Axis::X, Axis::Y, Axis::Z],
    [Axis::X, Axis::Y, Axis::Context],
    [Axis::X, Axis::Data, Axis::Pipeline],
    [Axis::Y, Axis::Data, Axis::Pipeline],
    [Axis::Z, Axis::Context, Axis::Data],
    [Axis::Z, Axis::Context, Axis::Pipeline],
];

/// The same, but unless the tests are exhaustive those alone that cut one axis, on up to 4 ranks, or some three axes, on 8:
/// `tests/parity.rs` has all.
pub fn grids(ranks: &[usize]) -> Vec<Degrees> {
    let mut grids = all_grids(ranks);
    let is_told = |grid: &Degrees| {
        let cuts = |axes: &[Axis; 3]| axes.iter().all(|axis| grid.get(*axis) == 2);
        let degrees = || grid.iter().map(|(_, degree)| degree);
        let is_one_axis = degrees().filter(|degree| *degree > 1).count() <= 1;
        (is_one_axis && degrees().all(|degree| degree < 8)) || TOGETHER.iter().any(cuts)
    };
    grids.retain(|grid| is_exhaustive() || is_told(grid));
    grids
}

/// Whether the tests are to try everything: `FASCICLE_PARITY` is `all`.
pub fn is_exhaustive() -> bool {
    std::env::var("FASCICLE_PARITY").is_ok_and(|value| value == "all")
}

/// All of these choices if the tests are exhaustive, otherwise one, in turn: for cases that need not meet each of them.
pub fn in_turn<T>(case: usize, choices: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut choices: Vec<T> = choices.into_iter().collect();
    if !is_exhaustive() && !choices.is_empty() {
        choices = vec![choices.swap_remove(case % choices.len())];
    }
    choices
}

/// The sizes of a GPT configuration.
///
/// # Panics
/// If the model is not a GPT: this is for tests.
pub fn gpt(config: &Config) -> &GptConfig {
    config.model.get().expect("a configuration of a GPT")
}

/// Changes the sizes of a GPT configuration.
///
/// # Panics
/// As [`gpt`].
pub fn edit_gpt(config: &mut Config, edit: impl FnOnce(&mut GptConfig)) {
    config.model.edit(edit).expect("a configuration of a GPT");
}

/// The tokens of a step, the same for every grid: each sequence counts up by 3 from its own start.
pub fn fixed_tokens(config: &Config, step: u64, sequences: Range<usize>) -> train::data::Batch {
    let (length, vocabulary) = (gpt(config).context, gpt(config).vocabulary);
    let start = |sequence: usize| (sequence * 7 + step as usize * 5) * 11;
    let token =
        move |sequence: usize, place: usize| ((start(sequence) + 3 * place) % vocabulary) as u32;
    let all = |shift: usize| {
        sequences
            .clone()
            .flat_map(move |s| (0..length).map(move |p| token(s, p + shift)))
    };
    train::data::Batch {
        inputs: all(0).collect(),
        targets: all(1).collect(),
    }
}

/// This rank's tokens of a step, taken from [`fixed_tokens`].
///
/// # Errors
/// Those of the device.
pub fn fixed_batch(trainer: &Trainer, config: &Config, step: u64) -> train::Result<Batch> {
    let context = gpt(config).context;
    let tokens = |range| Ok(fixed_tokens(config, step, range).into_rows(context));
    trainer.batch_of(step, tokens)
}

/// The configuration on another grid.
pub fn on(config: &Config, grid: Degrees) -> Config {
    let mut config = config.clone();
    config.parallel.grid = grid;
    config
}

/// Trains as configured, but on one rank.
///
/// # Panics
/// As [`train()`].
pub fn serial(config: &Config) -> Outcome {
    train(&on(config, Degrees::default()))
}

/// Trains for the configured steps on the configured grid.
///
/// # Panics
/// If a rank fails, or two ranks report different losses: this is for tests.
pub fn train(config: &Config) -> Outcome {
    let grid = config.grid().unwrap_or_else(|error| panic!("{error}"));
    let shared = config.clone();
    joined(ranks(grid.world_size(), move |world, device| {
        train_rank(&shared, world, device)
    }))
}

/// As [`train()`], where `nodes` holds the node of each rank.
///
/// # Panics
/// As [`train()`].
pub fn train_on(config: &Config, nodes: &[usize]) -> Outcome {
    let shared = config.clone();
    joined(ranks_on(nodes, move |world, device| {
        train_rank(&shared, world, device)
    }))
}

/// As [`train()`], where `open` opens the device of a rank.
///
/// # Panics
/// As [`train()`].
pub fn train_with(config: &Config, open: Open) -> Outcome {
    let grid = config.grid().unwrap_or_else(|error| panic!("{error}"));
    let shared = config.clone();
    joined(ranks_with(grid.world_size(), open, move |world, device| {
        train_rank(&shared, world, device)
    }))
}

/// Runs these steps on the configured grid, after loading the checkpoint in `resume` and before saving one in `dir`; returns
/// the losses.
///
/// # Panics
/// If a rank fails: this is for tests.
pub fn train_steps(
    config: &Config,
    steps: Range<u64>,
    resume: Option<&Path>,
    dir: Option<&Path>,
) -> Vec<f64> {
    let grid = config.grid().unwrap_or_else(|error| panic!("{error}"));
    let [resume, dir] = [resume, dir].map(|path| path.map(Path::to_owned));
    let config = config.clone();
    let results = ranks(grid.world_size(), move |world, device| {
        let context = config.context(&world, &device)?;
        let mut trainer = config.trainer(&context)?;
        if let Some(path) = &resume {
            trainer.resume(path)?;
        }
        let mut losses = Vec::new();
        for step in steps.clone() {
            losses.push(trainer.step(&fixed_batch(&trainer, &config, step)?)?.loss);
        }
        if let Some(dir) = &dir {
            trainer.save(dir)?;
        }
        Ok(losses)
    });
    results[0].clone()
}

fn train_rank(config: &Config, world: World, device: Device) -> train::Result<Observed> {
    let context = config.context(&world, &device)?;
    let mut trainer = config.trainer(&context)?;
    let batch = |trainer: &Trainer, step| fixed_batch(trainer, config, step);
    Observed::of(&mut trainer, config.training.steps, batch)
}

fn joined(ranks: Vec<Observed>) -> Outcome {
    Outcome::join(ranks).unwrap_or_else(|reason| panic!("{reason}"))
}
