//! Flags that override a configuration.

use crate::{
    failure::{Failure, Outcome},
    grids, sets,
};
use clap::{Args, builder::PossibleValuesParser, builder::TypedValueParser};
use grid::{Axis, Degrees};
use parallel::{data::Sharding, pipeline::ScheduleKind};
use std::{cmp::Reverse, path::PathBuf};
use train::{
    Config, Families,
    config::{OptimiserKind, OverlapNames, Precision, overlap_from_names},
    data::TokenType,
};

/// Flags that override a configuration; keys without a flag keep their value.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// Number of ranks; without --grid the program chooses a grid to fit
    #[arg(long, value_name = "N")]
    pub(crate) ranks: Option<usize>,
    /// Ranks along each axis, as in x=2,z=2,pipeline=2; unnamed axes have 1. Or a JSON file with them, such as AxoNN's axonn.json
    #[arg(long, value_name = "AXIS=N,...", value_parser = grids::named)]
    pub(crate) grid: Option<Degrees>,
    /// Pipeline schedule: gpipe, 1f1b, interleaved (or interleaved:CHUNKS), zb-h1, zb-v, pipedream, pipedream-2bw, message-driven (or
    /// message-driven:LIMIT)
    #[arg(long)]
    schedule: Option<ScheduleKind>,
    /// Training data: a text file, a folder of text files, samples (.jsonl: texts, prompts with completions, or chats), a folder
    /// of `data tokenize`, or a file of token ids (.u16, .u32, .bin)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Size of the ids in a file of token ids whose extension is neither .u16 nor .u32, such as nanoGPT's train.bin: u16 or u32
    #[arg(long, value_name = "u16|u32", value_parser = token_types())]
    token_type: Option<TokenType>,
    /// Total number of steps
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    /// Sequences per global batch
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Micro-batches into which each replica's share of the batch is cut
    #[arg(long, value_name = "N")]
    pub(crate) micro_batches: Option<usize>,
    /// Type in which the model computes
    #[arg(long, value_parser = precisions())]
    precision: Option<Precision>,
    /// Collectives that run beside compute: all, none, or any of oar (all-reduces of gradients of inputs), ors (reduce-scatters of
    /// gradients of weights), oag (all-gathers of weights), oag-backward (these in backward alone) and data (sums of gradients over
    /// replicas)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    overlap: Option<Vec<String>>,
    /// Threads per rank
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of initial values, data order and dropout
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// What replicas along Data hold in shards: nothing, the optimiser's state (ZeRO stage 1), or gradients too (stage 2)
    #[arg(long, value_name = "none|optimiser|gradients")]
    sharding: Option<Sharding>,
    /// Seconds that a rank waits for others before the run ends
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Any key of the configuration, as in training.learning_rate=1e-3; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// The keys of `parallel` that state how many ranks there are.
pub(crate) const GRID: [&str; 2] = ["grid", "ranks"];

impl Overrides {
    /// The configuration with these flags applied: first `--set`, then the others.
    pub(crate) fn applied(&self, config: Config, families: &Families) -> Outcome<Config> {
        let mut config = sets::applied(config, &self.settings, families)?;
        self.over_training(&mut config);
        self.over_parallel(&mut config)?;
        replace(&mut config.seed, self.seed);
        config.data.token_type = self.token_type.or(config.data.token_type);
        if let Some(path) = &self.data {
            config.data.path = Some(path.clone());
            config.data.mixture.clear();
        }
        Ok(config)
    }

    fn over_training(&self, config: &mut Config) {
        let training = &mut config.training;
        replace(&mut training.steps, self.steps);
        replace(&mut training.batch, self.batch);
        replace(&mut training.micro_batches, self.micro_batches);
        replace(&mut training.precision, self.precision);
    }

    fn over_parallel(&self, config: &mut Config) -> Outcome {
        let parallel = &mut config.parallel;
        replace(&mut parallel.schedule, self.schedule);
        replace(&mut parallel.threads, self.threads);
        replace(&mut parallel.timeout_s, self.timeout);
        replace(&mut parallel.sharding, self.sharding);
        if let Some(names) = &self.overlap {
            let overlap =
                overlap_from_names(names).map_err(|error| Failure::usage(format!("--{error}")))?;
            parallel.overlap = OverlapNames(overlap);
        }
        if self.ranks.is_some() || self.grid.is_some() {
            parallel.ranks = self.ranks;
        }
        replace(&mut parallel.grid, self.grid);
        Ok(())
    }

    /// A grid of this many ranks in place of the one that was stated.
    pub(crate) fn take_ranks(&mut self, ranks: usize) {
        (self.ranks, self.grid) = (Some(ranks), None);
    }

    /// Whether `--set` states the number of ranks or a grid.
    pub(crate) fn sets_grid(&self) -> bool {
        let mut keys = self.settings.iter().filter_map(|setting| {
            let (key, _) = setting.split_once('=')?;
            key.trim().strip_prefix("parallel.")
        });
        keys.any(|key| GRID.contains(&key.split('.').next().unwrap_or(key)))
    }

    /// Chooses a grid if only the number of ranks is given; the model's vocabulary must be known.
    ///
    /// Keeps the configured grid if it has that many ranks; otherwise takes the nearest grid that fits.
    /// `default_ranks` is the number of ranks if the user gave neither a number nor a grid.
    pub(crate) fn choose_grid(&self, config: &mut Config, default_ranks: Option<usize>) -> Outcome {
        let (Some(ranks), None) = (self.ranks.or(default_ranks), self.grid) else {
            return Ok(());
        };
        let wished = config.parallel.grid;
        if wished.world_size() == Ok(ranks) {
            return Ok(());
        }
        let demands = config.demands();
        config.parallel.grid = nearest(wished, demands.fits(ranks))
            .ok_or_else(|| none_fits(&demands, wished, ranks))?;
        Ok(())
    }
}

fn replace<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The names of optimisers.
pub(crate) fn optimisers() -> impl TypedValueParser<Value = OptimiserKind> {
    PossibleValuesParser::new(["adamw", "adamw8bit", "adafactor", "sgd", "lion", "muon"])
        .try_map(|name| toml::Value::String(name).try_into())
}

/// The names of precisions.
pub(crate) fn precisions() -> impl TypedValueParser<Value = Precision> {
    PossibleValuesParser::new(["f32", "f64", "bf16", "f16"])
        .try_map(|name| toml::Value::String(name).try_into())
}

fn token_types() -> impl TypedValueParser<Value = TokenType> {
    PossibleValuesParser::new(["u16", "u32"]).try_map(|name| name.parse::<TokenType>())
}

// Prefers the fewest doublings and halvings; among equals, more replicas, which communicate least, then fewer cuts of
// sequences and fewer stages.
fn nearest(wished: Degrees, candidates: Vec<Degrees>) -> Option<Degrees> {
    let log = |degrees: &Degrees, axis| (degrees.get(axis) as f64).log2();
    let steps = |degrees: &Degrees| -> f64 {
        Axis::ALL
            .iter()
            .map(|&axis| (log(degrees, axis) - log(&wished, axis)).abs())
            .sum()
    };
    let key = |degrees: &Degrees| {
        (
            (steps(degrees) * 1e6).round() as u64,
            Reverse(degrees.data),
            degrees.context,
            degrees.pipeline,
            degrees.z,
        )
    };
    candidates.into_iter().min_by_key(key)
}

// The error about the nearest grid: what does not fit, and which smaller grids would.
fn none_fits(demands: &grid::Demands, wished: Degrees, ranks: usize) -> Failure {
    let Some(closest) = nearest(wished, grid::factorisations(ranks)) else {
        return Failure::usage(format!("--ranks: found {ranks}, needs at least 1"));
    };
    let reason = demands
        .check(&closest)
        .err()
        .map_or_else(String::new, |error| error.to_string());
    Failure::usage(format!("--ranks {ranks}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    #[command(args_override_self = true)]
    struct Line {
        #[command(flatten)]
        overrides: Overrides,
    }

    fn configured(words: &str) -> Outcome<Config> {
        let line = Line::try_parse_from(["test"].into_iter().chain(words.split_whitespace()));
        let overrides = line.map_err(Failure::usage)?.overrides;
        let config = crate::testing::config(256);
        let mut config = overrides.applied(config, &families::families())?;
        overrides.choose_grid(&mut config, None)?;
        Ok(config)
    }

    fn grid(words: &str) -> String {
        configured(words).unwrap().parallel.grid.to_string()
    }

    #[test]
    fn flags_stand_over_settings_and_settings_over_the_configuration() {
        let words = "--set training.steps=5 --set training.batch=32 --steps 6 --steps 7 --overlap oar,data --precision bf16 --seed 4";
        let config = configured(words).unwrap();
        assert_eq!(
            (config.training.steps, config.training.batch, config.seed),
            (7, 32, 4)
        );
        assert_eq!(config.training.precision, Precision::Bf16);
        assert_eq!(
            Vec::<String>::from(config.parallel.overlap),
            ["oar", "data"]
        );
        assert_eq!(
            configured("--overlap none").unwrap().parallel.overlap.0,
            parallel::Overlap::NONE
        );
    }

    #[test]
    fn a_number_of_ranks_finds_its_grid() {
        let default = crate::testing::config(0).parallel.grid;
        assert_eq!(grid("--ranks 8"), default.to_string());
        assert_eq!(grid("--ranks 1"), Degrees::default().to_string());
        assert_eq!(grid("--ranks 4"), "x=2,y=1,z=2,data=1,pipeline=1");
        assert_eq!(grid("--ranks 16"), "x=2,y=1,z=2,data=2,pipeline=2");
        assert_eq!(
            grid("--ranks 8 --grid y=2,data=4"),
            "x=1,y=2,z=1,data=4,pipeline=1"
        );
        assert_eq!(
            configured("--grid y=2,data=4").unwrap().parallel.ranks,
            None
        );
    }

    #[test]
    fn settings_that_state_the_ranks_are_found() {
        let sets_grid = |words: &[&str]| {
            let line = ["test"].iter().chain(words);
            Line::parse_from(line).overrides.sets_grid()
        };
        for setting in ["parallel.grid=x=2", "parallel.grid.x=2", "parallel.ranks=4"] {
            assert!(sets_grid(&["--set", setting]), "{setting}");
        }
        assert!(!sets_grid(&["--set", "parallel.threads=2", "--ranks", "4"]));
    }

    #[test]
    fn what_cannot_be_is_told_with_what_can() {
        let sentence = |words| match configured(words) {
            Err(Failure::Usage(sentence)) => sentence,
            other => panic!("{words}: {other:?}"),
        };
        // More than half the tokens of a sequence, and a prime number.
        let many = sentence("--ranks 67");
        assert!(
            many.starts_with("--ranks 67: grid ") && many.contains("the nearest grids of 66 ranks"),
            "{many}"
        );
        assert_eq!(sentence("--ranks 0"), "--ranks: found 0, needs at least 1");
    }
}
