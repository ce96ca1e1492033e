//! Training as a pure function: a configuration in, losses and whole gradients out.

use crate::{contract::Open, nodes::ranks_on, ranks, vendors::ranks_with};
use bootstrap::World;
use families::GptConfig;
use grid::IndexBox;
use parallel::{Batch, Counters, data::Part};
use std::collections::BTreeMap;
use tensor::Device;
use train::{Config, Trainer, config::Precision};

/// What training gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Loss of each step.
    pub losses: Vec<f64>,
    /// Norm of the gradients of each step.
    pub norms: Vec<f64>,
    /// The whole gradient of each parameter in the first step, row-major.
    pub first_gradients: BTreeMap<String, Vec<f64>>,
    /// The same in the last step.
    pub gradients: BTreeMap<String, Vec<f64>>,
    /// The whole weights after the last step.
    pub weights: BTreeMap<String, Vec<f64>>,
    /// What each rank's collectives moved in the last step.
    pub counters: Vec<Counters>,
    /// How many kinds of collectives, on all ranks and in all steps, went in two levels over nodes.
    pub in_levels: usize,
}

/// A small model and batch that fit every grid of up to 8 ranks, with sizes that do not divide where they need not.
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
    config
}

/// The sizes of a configuration's GPT.
///
/// # Panics
/// When its model is another: this is for tests.
pub fn gpt(config: &Config) -> &GptConfig {
    config.model.get().expect("a configuration of a GPT")
}

/// Changes the sizes of a configuration's GPT.
///
/// # Panics
/// As [`gpt`].
pub fn edit_gpt(config: &mut Config, edit: impl FnOnce(&mut GptConfig)) {
    config.model.edit(edit).expect("a configuration of a GPT");
}

/// The tokens of a step, the same for every grid: each sequence counts up from a start of its own, by 3.
pub fn fixed_tokens(
    config: &Config,
    step: u64,
    sequences: std::ops::Range<usize>,
) -> train::data::Batch {
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

/// This rank's tokens of a step, as [`fixed_tokens`] gives them.
///
/// # Errors
/// Those of the device.
pub fn fixed_batch(trainer: &Trainer, config: &Config, step: u64) -> train::Result<Batch> {
    let context = gpt(config).context;
    let tokens = |range| Ok(fixed_tokens(config, step, range).into_rows(context));
    trainer
        .row_cut()
        .cut(trainer.context(), trainer.dtype(), step, tokens)
}

type Shard = (String, Vec<usize>, IndexBox, Vec<f64>);

/// Trains for the configured steps on the configured grid.
///
/// # Panics
/// When a rank fails, or two ranks report different losses: this is for tests.
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

struct Trained {
    losses: Vec<f64>,
    norms: Vec<f64>,
    gradients: [Vec<Shard>; 2],
    weights: Vec<Shard>,
    counters: Counters,
    in_levels: usize,
}

fn train_rank(config: &Config, world: World, device: Device) -> train::Result<Trained> {
    let context = config.context(&world, &device)?;
    let mut trainer = config.trainer(&context)?;
    let (mut losses, mut norms, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..config.training.steps {
        let batch = fixed_batch(&trainer, config, step)?;
        context.reset_counters();
        let result = trainer.step(&batch)?;
        losses.push(result.loss);
        norms.push(result.gradient_norm);
        if step == 0 {
            first = gradients(&trainer)?;
        }
    }
    let (counters, gradients) = (context.counters(), [first, gradients(&trainer)?]);
    let in_levels = counters
        .iter()
        .map(|(axis, operation, ..)| context.report().in_levels(axis, operation));
    let (in_levels, weights) = (in_levels.sum(), shards(&trainer, Part::Weights)?);
    Ok(Trained {
        losses,
        norms,
        gradients,
        weights,
        counters,
        in_levels,
    })
}

fn joined(results: Vec<Trained>) -> Outcome {
    let (losses, norms) = (results[0].losses.clone(), results[0].norms.clone());
    let mut outcome = Outcome {
        losses,
        norms,
        ..Outcome::default()
    };
    for (rank, trained) in results.into_iter().enumerate() {
        let Trained {
            losses,
            norms,
            gradients: [first, last],
            weights,
            counters,
            in_levels,
        } = trained;
        assert_eq!(
            losses, outcome.losses,
            "rank {rank} reports other losses than rank 0"
        );
        assert_eq!(
            norms, outcome.norms,
            "rank {rank} reports other norms than rank 0"
        );
        first
            .into_iter()
            .for_each(|shard| place(&mut outcome.first_gradients, shard));
        last.into_iter()
            .for_each(|shard| place(&mut outcome.gradients, shard));
        weights
            .into_iter()
            .for_each(|shard| place(&mut outcome.weights, shard));
        outcome.counters.push(counters);
        outcome.in_levels += in_levels;
    }
    outcome
}

// A step leaves its gradients in place; with a sharded optimiser only a share of them is whole.
fn gradients(trainer: &Trainer) -> train::Result<Vec<Shard>> {
    match trainer.parameters().options().sharded {
        true => Ok(Vec::new()),
        false => shards(trainer, Part::Gradient),
    }
}

fn shards(trainer: &Trainer, part: Part) -> train::Result<Vec<Shard>> {
    let mut shards = Vec::new();
    trainer
        .parameters()
        .read::<train::Error>(part, |parameter, numbers| {
            let shape = parameter.global_shape().to_vec();
            shards.push((
                parameter.name().to_owned(),
                shape,
                parameter.index().clone(),
                numbers,
            ));
            Ok(())
        })?;
    Ok(shards)
}

// Replicas must agree bit for bit: they hold the same sums.
fn place(whole: &mut BTreeMap<String, Vec<f64>>, (name, shape, index, numbers): Shard) {
    let count = shape.iter().product();
    let target = whole
        .entry(name.clone())
        .or_insert_with(|| vec![f64::NAN; count]);
    let mut taken = 0;
    for (start, len) in index.contiguous_runs(&shape) {
        for (old, new) in target[start..start + len]
            .iter_mut()
            .zip(&numbers[taken..taken + len])
        {
            assert!(
                old.is_nan() || *old == *new,
                "{name}: replicas differ, {old} and {new}"
            );
            *old = *new;
        }
        taken += len;
    }
}
