//! What `fascicle bench step` trains: the configuration, and the one batch of all its steps.

use crate::{
    failure::{Failure, Outcome},
    overrides::precisions,
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use grid::Degrees;
use hal::random::Key;
use nn::{Family, GptConfig};
use parallel::{Context, pipeline::ScheduleKind};
use std::ops::Range;
use train::{
    Config,
    config::{OverlapNames, Precision, RateSchedule, TrainingConfig, overlap_from_names},
    data,
    trainer::Shares,
};

/// Sizes of the benchmark's model and batch.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Sizes {
    /// Architecture
    #[arg(long, default_value = "gpt2", value_parser = families())]
    family: Family,
    /// Transformer blocks
    #[arg(long, value_name = "N", default_value_t = 4)]
    layers: usize,
    /// Width of the residual stream
    #[arg(long, value_name = "N", default_value_t = 512)]
    hidden: usize,
    /// Attention heads
    #[arg(long, value_name = "N", default_value_t = 8)]
    heads: usize,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", default_value_t = 256)]
    context: usize,
    /// Number of tokens
    #[arg(long, value_name = "N", default_value_t = 8192)]
    vocabulary: usize,
    /// Sequences in the global batch
    #[arg(long, value_name = "N", default_value_t = 8)]
    batch: usize,
    /// Use the embedding's table as the head
    #[arg(long, conflicts_with = "untied")]
    tied: bool,
    /// A head with a table of its own: the default
    #[arg(long)]
    untied: bool,
}

/// How the benchmark's steps run.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Running {
    /// Ranks along each axis
    #[arg(long, value_name = "AXIS=N,...", default_value = "x=1")]
    pub(super) grid: Degrees,
    /// Threads that each rank computes with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) threads: usize,
    /// Type of weights and activations; sums and the optimiser's state are wider
    #[arg(long, default_value = "f32", value_parser = precisions())]
    precision: Precision,
    /// Micro-batches of a replica; by default one for each stage
    #[arg(long, value_name = "N")]
    micro_batches: Option<usize>,
    /// gpipe, 1f1b, interleaved (or interleaved:CHUNKS), message-driven (or message-driven:LIMIT)
    #[arg(long, default_value = "1f1b")]
    schedule: ScheduleKind,
    /// Record forward and backward once, and queue them in one call (CUDA and ROCm, one rank)
    #[arg(long)]
    graph: bool,
    /// Collectives that run beside compute: any of oar,ors,oag,data, or all, or none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "all"
    )]
    overlap: Vec<String>,
}

/// The configuration, checked: AdamW at a constant rate, no clipping.
pub(super) fn config(sizes: &Sizes, running: &Running, steps: u64) -> Outcome<Config> {
    let mut config = Config {
        seed: 1,
        model: model(sizes),
        ..Config::default()
    };
    config.training = TrainingConfig {
        steps,
        batch: sizes.batch,
        micro_batches: running.micro_batches.unwrap_or(running.grid.pipeline),
        learning_rate: 3e-4,
        warmup_steps: 0,
        rate_schedule: RateSchedule::Constant,
        weight_decay: 0.01,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        clip_norm: 0.0,
        precision: running.precision,
        graph: running.graph,
        ..TrainingConfig::default()
    };
    let overlap = overlap_from_names(&running.overlap)
        .map_err(|error| Failure::usage(format!("--{error}")))?;
    let parallel = &mut config.parallel;
    (parallel.grid, parallel.threads, parallel.schedule) =
        (running.grid, running.threads, running.schedule);
    parallel.overlap = OverlapNames(overlap);
    config.check()?;
    Ok(config)
}

fn model(sizes: &Sizes) -> GptConfig {
    let &Sizes {
        family,
        layers,
        hidden,
        heads,
        context,
        vocabulary,
        tied,
        ..
    } = sizes;
    GptConfig {
        family,
        layers,
        hidden,
        heads,
        context,
        vocabulary,
        tied_head: tied,
        ..GptConfig::default()
    }
}

fn families() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(["gpt2", "llama"])
        .try_map(|name| toml::Value::String(name).try_into())
}

/// Token ids of the batch, sequences x (context + 1), drawn once.
pub(super) fn random_ids(model: &GptConfig, batch: usize) -> Vec<u32> {
    let key = Key::new(1, "bench batch", 0);
    let count = batch * (model.context + 1);
    (0..count as u64)
        .map(|index| key.word(index) % model.vocabulary as u32)
        .collect()
}

/// This rank's tokens of the batch, under the number of a step.
pub(super) fn batch(
    context: &Context,
    config: &Config,
    ids: &[u32],
    step: u64,
) -> train::Result<nn::Batch> {
    let shares = Shares {
        batch: config.training.batch,
        micro_batches: config.training.micro_batches,
    };
    let rows = ids.chunks_exact(config.model.context + 1);
    shares.cut(context, step, |range: Range<usize>| {
        let own = rows.clone().skip(range.start).take(range.len());
        let without = |keep: fn(&[u32]) -> &[u32]| own.clone().flat_map(keep).copied().collect();
        let (inputs, targets) = (
            without(|row| &row[..row.len() - 1]),
            without(|row| &row[1..]),
        );
        Ok(data::Batch { inputs, targets })
    })
}

/// Which kind of parallelism the grid is, in one word.
pub(super) fn mode(grid: &Degrees) -> &'static str {
    let (tensor, data, pipeline) = (
        grid.x * grid.y * grid.z > 1,
        grid.data > 1,
        grid.pipeline > 1,
    );
    match (tensor, data, pipeline) {
        (false, false, false) => "serial",
        (true, false, false) => "tensor",
        (false, true, false) => "data",
        (false, false, true) => "pipeline",
        _ => "hybrid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_in_the_vocabulary_and_do_not_change() {
        let model = GptConfig {
            context: 7,
            vocabulary: 11,
            ..GptConfig::default()
        };
        let ids = random_ids(&model, 4);
        assert_eq!((ids.len(), ids.iter().all(|&id| id < 11)), (32, true));
        assert_eq!(ids, random_ids(&model, 4));
        assert!((0..11).all(|id| random_ids(&model, 64).contains(&id)));
    }

    #[test]
    fn a_grid_has_a_word() {
        let words = ["x=1", "data=2", "x=2,z=2", "pipeline=4", "x=2,data=2"]
            .map(|grid| mode(&grid.parse().unwrap()));
        assert_eq!(words, ["serial", "data", "tensor", "pipeline", "hybrid"]);
    }
}
