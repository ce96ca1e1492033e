//! The configuration that `fascicle bench step` trains, and the one batch of all its steps.

use crate::{
    failure::{Failure, Outcome},
    grids,
    overrides::precisions,
};
use grid::Degrees;
use hal::{CollectiveBackend, EpiloguePlacement, random::Key};
use parallel::{Batch, pipeline::ScheduleKind};
use std::{ops::Range, path::PathBuf};
use train::{
    Config, Families, ModelConfig, Trainer,
    architecture::Text,
    checkpoint::PlainFile,
    config::{
        BitsChoice, DeviceConfig, OverlapNames, Precision, TrainingConfig, overlap_from_names,
    },
    data,
    optimiser::RateSchedule,
};

/// Sizes of the benchmark's model and batch.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Sizes {
    /// Family of the model; defaults to the first that the program has
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Number of transformer blocks; defaults to that of --weights, or 4
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Width of the residual stream; defaults to that of --weights, or 512
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Number of attention heads, which weights do not determine; defaults to 8
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Heads of keys and values; defaults to those of --weights, or the number of heads
    #[arg(long, value_name = "N")]
    kv_heads: Option<usize>,
    /// Width of the MLP; defaults to that of --weights, or of the family
    #[arg(long, value_name = "N")]
    mlp_hidden: Option<usize>,
    /// Tokens per sequence; defaults to that of --weights, or 256
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Vocabulary size; defaults to that of --weights, or 8192
    #[arg(long, value_name = "N")]
    vocabulary: Option<usize>,
    /// Sequences per global batch
    #[arg(long, value_name = "N", default_value_t = 8)]
    batch: usize,
    /// Use the embedding's table as the head
    #[arg(long, conflicts_with = "untied")]
    tied: bool,
    /// Give the head a table of its own; without either flag, as in --weights, or a table of its own
    #[arg(long)]
    untied: bool,
}

/// How the benchmark runs its steps.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Running {
    /// Ranks along each axis
    #[arg(long, value_name = "AXIS=N,...", default_value = "x=1", value_parser = grids::named)]
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
    /// Pipeline schedule: gpipe, 1f1b, interleaved (or interleaved:CHUNKS), zb-h1, zb-v, pipedream, pipedream-2bw, message-driven (or
    /// message-driven:LIMIT)
    #[arg(long, default_value = "1f1b")]
    schedule: ScheduleKind,
    /// What the bits depend on: the grid too (run), or not (grid); auto is grid where that can be held
    #[arg(long, value_name = "auto|run|grid", default_value_t)]
    reproducible: BitsChoice,
    /// Record forward and backward once, and queue them in one call (CUDA and ROCm, one rank)
    #[arg(long)]
    graph: bool,
    /// Collectives that run beside compute: all, none, or any of oar (all-reduces of gradients of inputs), ors (reduce-scatters of
    /// gradients of weights), oag (all-gathers of weights), oag-backward (these in backward alone) and data (sums of gradients over
    /// replicas)
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
    weights: Option<&PlainFile>,
    steps: u64,
) -> Outcome<Config> {
    let mut config = Config {
        seed: 1,
        ..Config::new(model(families, sizes, weights)?)
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
        reproducible: running.reproducible,
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
        ..DeviceConfig::default()
    };
    config.check()?;
    Ok(config)
}

/// Sizes that neither a flag nor the weights determine.
const DEFAULTS: [(&str, i64); 4] = [
    ("layers", 4),
    ("hidden", 512),
    ("context", 256),
    ("vocabulary", 8192),
];

// The flags, then the sizes of the weights, then the defaults.
fn model(families: &Families, sizes: &Sizes, weights: Option<&PlainFile>) -> Outcome<ModelConfig> {
    let mut table = sizes.given();
    let shape = |name: &str| {
        let file = weights?;
        let name = [name.to_owned(), format!("weights/{name}")];
        let stored = name.iter().find(|name| file.contains(name))?;
        file.shape(stored).ok().map(<[usize]>::to_vec)
    };
    let stored = families.keys_of(&shape, &table).map_err(Failure::usage)?;
    for (key, value) in stored {
        match table.get(key) {
            Some(given) if *given != value => {
                let path = weights.map(|file| file.path().display().to_string());
                let flag = match key {
                    "tied_head" => "tied, --untied".to_owned(),
                    size => size.replace('_', "-"),
                };
                return Err(Failure::Usage(format!(
                    "--{flag}: found {given}, needs {value}, as in {}",
                    path.unwrap_or_default()
                )));
            }
            _ => drop(table.insert(key.into(), value)),
        }
    }
    let defaults = DEFAULTS.map(|(key, size)| (key, toml::Value::Integer(size)));
    for (key, value) in defaults
        .into_iter()
        .chain([("tied_head", toml::Value::Boolean(false))])
    {
        table.entry(key).or_insert(value);
    }
    let document = toml::Table::from_iter([("model".to_owned(), toml::Value::Table(table))]);
    let model = Config::parse(&document.to_string(), families).map_err(Failure::usage)?;
    Ok(model.model)
}

impl Sizes {
    // The keys of the model for which there are flags, and the heads.
    fn given(&self) -> toml::Table {
        let size = |size: usize| toml::Value::Integer(i64::try_from(size).unwrap_or(i64::MAX));
        let sizes = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", Some(self.heads.unwrap_or(8))),
            ("kv_heads", self.kv_heads),
            ("mlp_hidden", self.mlp_hidden),
            ("context", self.context),
            ("vocabulary", self.vocabulary),
        ];
        let sizes = sizes
            .into_iter()
            .filter_map(|(key, found)| Some((key, size(found?))));
        let family = self.family.clone();
        let family = family.map(|name| ("family", toml::Value::String(name)));
        let tied =
            (self.tied || self.untied).then_some(("tied_head", toml::Value::Boolean(self.tied)));
        let all = sizes.chain(family).chain(tied);
        all.map(|(key, value)| (key.to_owned(), value)).collect()
    }
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
    trainer.batch_of(step, tokens)
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

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        sizes: Sizes,
    }

    // A file of zeros in the format of safetensors: the header's length, the header, the numbers.
    fn file(dir: &std::path::Path, tensors: &[(&str, [usize; 2])]) -> PlainFile {
        let (mut header, mut end) = (serde_json::Map::new(), 0);
        for (name, shape) in tensors {
            let begin = end;
            end += 4 * shape[0] * shape[1];
            let entry =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]});
            header.insert((*name).to_owned(), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let length = (header.len() as u64).to_le_bytes();
        let path = dir.join("weights.safetensors");
        std::fs::write(&path, [&length[..], &header, &vec![0; end]].concat()).unwrap();
        PlainFile::open(&path).unwrap()
    }

    #[test]
    fn sizes_come_from_the_flags_then_the_weights_then_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(
            dir.path(),
            &[
                ("weights/embedding.token", [96, 32]),
                ("weights/embedding.position", [24, 32]),
                ("weights/blocks.0.attention.key.weight", [32, 16]),
                ("weights/blocks.0.mlp.up.weight", [32, 80]),
                ("weights/blocks.1.mlp.up.weight", [32, 80]),
            ],
        );
        let families = families::families();
        let with = |words: &str, weights| {
            let words = ["bench"].into_iter().chain(words.split_whitespace());
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            model(&families, &line.sizes, weights)
        };
        let keys = |words: &str, weights| {
            let table = with(words, weights).unwrap().table().unwrap();
            let numbers = [
                "layers",
                "hidden",
                "heads",
                "kv_heads",
                "mlp_hidden",
                "context",
                "vocabulary",
            ];
            let numbers = numbers.map(|key| table[key].as_integer().unwrap());
            (numbers, table["tied_head"].as_bool().unwrap())
        };
        assert_eq!(keys("", None), ([4, 512, 8, 0, 0, 256, 8192], false));
        assert_eq!(
            keys("--heads 4", Some(&file)),
            ([2, 32, 4, 2, 80, 24, 96], true)
        );
        assert_eq!(
            keys("--heads 4 --layers 2 --tied", Some(&file)),
            ([2, 32, 4, 2, 80, 24, 96], true)
        );
        let path = file.path().display();
        for (words, flag) in [
            ("--heads 4 --layers 3", "--layers: found 3, needs 2"),
            (
                "--heads 4 --mlp-hidden 64",
                "--mlp-hidden: found 64, needs 80",
            ),
            ("--heads 4 --kv-heads 4", "--kv-heads: found 4, needs 2"),
            (
                "--heads 4 --untied",
                "--tied, --untied: found false, needs true",
            ),
        ] {
            let sentence = format!("{flag}, as in {path}");
            assert_eq!(with(words, Some(&file)), Err(Failure::Usage(sentence)));
        }
    }
}
