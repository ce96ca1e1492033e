//! The configuration that `fascicle bench step` trains, and the one batch of all its steps.

use crate::{
    failure::{Failure, Outcome},
    overrides::precisions,
};
use grid::Degrees;
use hal::{CollectiveBackend, EpiloguePlacement, random::Key};
use parallel::{Batch, pipeline::ScheduleKind};
use std::{ops::Range, path::PathBuf};
use train::{
    Config, Families, ModelConfig, Trainer,
    architecture::Text,
    config::{DeviceConfig, OverlapNames, Precision, TrainingConfig, overlap_from_names},
    data,
    optimiser::RateSchedule,
};

/// Sizes of the benchmark's model and batch.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Sizes {
    /// Family of the model
    #[arg(long, value_name = "NAME", default_value = "gpt2")]
    family: String,
    /// Number of transformer blocks
    #[arg(long, value_name = "N", default_value_t = 4)]
    layers: usize,
    /// Width of the residual stream
    #[arg(long, value_name = "N", default_value_t = 512)]
    hidden: usize,
    /// Number of attention heads
    #[arg(long, value_name = "N", default_value_t = 8)]
    heads: usize,
    /// Heads of keys and values; defaults to the number of heads
    #[arg(long, value_name = "N")]
    kv_heads: Option<usize>,
    /// Width of the MLP; defaults to that of the family
    #[arg(long, value_name = "N")]
    mlp_hidden: Option<usize>,
    /// Tokens per sequence
    #[arg(long, value_name = "N", default_value_t = 256)]
    context: usize,
    /// Vocabulary size
    #[arg(long, value_name = "N", default_value_t = 8192)]
    vocabulary: usize,
    /// Sequences per global batch
    #[arg(long, value_name = "N", default_value_t = 8)]
    batch: usize,
    /// Use the embedding's table as the head
    #[arg(long, conflicts_with = "untied")]
    tied: bool,
    /// Give the head a table of its own (the default)
    #[arg(long)]
    untied: bool,
}

/// How the benchmark runs its steps.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Running {
    /// Ranks along each axis
    #[arg(long, value_name = "AXIS=N,...", default_value = "x=1")]
    pub(super) grid: Degrees,
    /// Threads per rank
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) threads: usize,
    /// Type of weights and activations; sums and the optimiser's state are wider
    #[arg(long, default_value = "f32", value_parser = precisions())]
    precision: Precision,
    /// Micro-batches per replica; defaults to one per stage
    #[arg(long, value_name = "N")]
    micro_batches: Option<usize>,
    /// Pipeline schedule: gpipe, 1f1b, interleaved (or interleaved:CHUNKS), message-driven (or message-driven:LIMIT)
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
    /// Backend that runs the collectives: library or staged
    #[arg(long, value_name = "BACKEND", default_value_t)]
    collectives: CollectiveBackend,
    /// Where a bias and GELU are computed: fused (in the matmul) or separate
    #[arg(long, value_name = "PLACE", default_value_t)]
    epilogues: EpiloguePlacement,
    /// File of the fastest variant of each matmul; the first step writes it if it does not exist
    #[arg(long, value_name = "FILE")]
    matmul_choices: Option<PathBuf>,
}

/// The configuration, checked: AdamW at a constant rate, no clipping.
pub(super) fn config(
    families: &Families,
    sizes: &Sizes,
    running: &Running,
    steps: u64,
) -> Outcome<Config> {
    let mut config = Config {
        seed: 1,
        ..Config::new(model(families, sizes)?)
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
    config.device = DeviceConfig {
        collectives: running.collectives,
        epilogues: running.epilogues,
        matmul_choices: running.matmul_choices.clone(),
    };
    config.check()?;
    Ok(config)
}

fn model(families: &Families, sizes: &Sizes) -> Outcome<ModelConfig> {
    let size = |size: usize| toml::Value::Integer(i64::try_from(size).unwrap_or(i64::MAX));
    let optional = [
        ("kv_heads", sizes.kv_heads),
        ("mlp_hidden", sizes.mlp_hidden),
    ];
    let optional = optional.map(|(key, found)| found.map(|found| (key, size(found))));
    let keys = [
        ("family", toml::Value::String(sizes.family.clone())),
        ("layers", size(sizes.layers)),
        ("hidden", size(sizes.hidden)),
        ("heads", size(sizes.heads)),
        ("context", size(sizes.context)),
        ("vocabulary", size(sizes.vocabulary)),
        ("tied_head", toml::Value::Boolean(sizes.tied)),
    ];
    let keys = keys.into_iter().chain(optional.into_iter().flatten());
    families.edited(None, keys).map_err(Failure::usage)
}

/// Tokens per sequence, and vocabulary size.
///
/// # Errors
/// [`Failure::Usage`] for a model that reads no text.
pub(super) fn text(model: &ModelConfig) -> Outcome<Text> {
    let needs = || Failure::usage(format!("--family: {} reads no text", model.family()));
    model.text().ok_or_else(needs)
}

/// Token ids of the batch, sequences x (context + 1), drawn once.
pub(super) fn random_ids(text: Text, batch: usize) -> Vec<u32> {
    let key = Key::new(1, "bench batch", 0);
    let count = batch * (text.context + 1);
    (0..count as u64)
        .map(|index| key.word(index) % text.vocabulary as u32)
        .collect()
}

/// This rank's tokens of the batch, under the number of the step.
pub(super) fn batch(trainer: &Trainer, text: Text, ids: &[u32], step: u64) -> train::Result<Batch> {
    let rows = ids.chunks_exact(text.context + 1);
    let tokens = |range: Range<usize>| {
        let own = rows.clone().skip(range.start).take(range.len());
        let without = |keep: fn(&[u32]) -> &[u32]| own.clone().flat_map(keep).copied().collect();
        let (inputs, targets) = (
            without(|row| &row[..row.len() - 1]),
            without(|row| &row[1..]),
        );
        Ok(data::Batch { inputs, targets }.into_rows(text.context))
    };
    trainer
        .row_cut()
        .cut(trainer.context(), trainer.dtype(), step, tokens)
}

/// The kind of parallelism that the grid uses, in one word.
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
        let text = Text {
            context: 7,
            vocabulary: 11,
        };
        let ids = random_ids(text, 4);
        assert_eq!((ids.len(), ids.iter().all(|&id| id < 11)), (32, true));
        assert_eq!(ids, random_ids(text, 4));
        assert!((0..11).all(|id| random_ids(text, 64).contains(&id)));
    }

    #[test]
    fn a_grid_has_a_word() {
        let words = ["x=1", "data=2", "x=2,z=2", "pipeline=4", "x=2,data=2"]
            .map(|grid| mode(&grid.parse().unwrap()));
        assert_eq!(words, ["serial", "data", "tensor", "pipeline", "hybrid"]);
    }
}
