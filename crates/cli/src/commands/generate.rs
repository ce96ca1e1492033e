//! `fascicle generate`: text from a checkpoint.

use super::checkpoint;
use crate::{
    Registry, device,
    failure::{Failure, Outcome},
    launcher,
    numbers::{MOST_THREADS, count},
    output,
    ranks::Team,
};
use clap::Args;
use grid::{Degrees, Grid};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use train::{
    Config,
    data::Tokenizer,
    generate::{Request, described, generate},
};

/// The most tokens of a text: each runs the full window through the model.
const MOST_TOKENS: usize = 1 << 20;

/// Arguments of `fascicle generate`.
#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// A checkpoint, or a run directory, whose newest checkpoint is used
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// Text to continue; defaults to the beginning of a line
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    tokens: usize,
    /// Values above 1 flatten the distribution over tokens, values below 1 sharpen it; 0 takes the most
    /// likely token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.8,
        allow_negative_numbers = true
    )]
    temperature: f64,
    /// Consider only the K most likely tokens; 0 considers all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Seed of the random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ranks along each axis; defaults to one rank
    #[arg(long, value_name = "AXIS=N,...")]
    grid: Option<Degrees>,
    /// Number of ranks; without --grid they lie along X
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    ranks: Option<usize>,
    /// Threads per rank; by default the ranks share the cores evenly
    #[arg(long, value_name = "N", value_parser = count::<MOST_THREADS>)]
    threads: Option<usize>,
    /// Print prompt, text and time as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Written {
    checkpoint: PathBuf,
    step: u64,
    prompt: String,
    text: String,
    tokens: usize,
    seconds: f64,
}

impl Generate {
    /// Writes the text to stdout.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        let reader = checkpoint::open(&self.checkpoint)?;
        let path = reader.path().to_owned();
        let (mut config, tokenizer) =
            described(&reader, &registry.families).map_err(Failure::run)?;
        let request = self.request(&tokenizer)?;
        let team = self.team(&mut config)?;
        let begun = Instant::now();
        let (asked, opened) = (request.clone(), path.clone());
        let texts = team.run(driver, move |world, device| {
            let reader = train::checkpoint::Reader::open(&opened)?;
            train::trainer::verify(world, &reader)?;
            generate(world, device, &config, &tokenizer, &reader, &asked)
        });
        let text = texts?.swap_remove(0);
        let seconds = begun.elapsed().as_secs_f64();
        let Request { prompt, tokens, .. } = request;
        match self.json {
            true => output::json(&Written {
                checkpoint: path,
                step: reader.step(),
                prompt,
                text,
                tokens,
                seconds,
            }),
            false => output::written(&text),
        }
    }

    fn request(&self, tokenizer: &Tokenizer) -> Outcome<Request> {
        let &Generate {
            tokens,
            temperature,
            top_k,
            seed,
            ..
        } = self;
        if tokens > MOST_TOKENS {
            return Err(Failure::usage(format!(
                "--tokens: found {tokens}, needs at most {MOST_TOKENS}"
            )));
        }
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(Failure::usage(format!(
                "--temperature: found {temperature}, needs a number of at least 0"
            )));
        }
        let prompt = self
            .prompt
            .clone()
            .unwrap_or_else(|| super::train::prompt(tokenizer));
        let known = tokenizer
            .encode(&prompt)
            .map_err(|error| Failure::usage(format!("--prompt: {error}")))?;
        match known.is_empty() {
            true => Err(Failure::usage("--prompt: found no token, needs at least 1")),
            false => Ok(Request {
                prompt,
                tokens,
                temperature,
                top_k,
                seed,
            }),
        }
    }

    fn team(&self, config: &mut Config) -> Outcome<Team> {
        let degrees = match (self.grid, self.ranks) {
            (Some(grid), _) => grid,
            (None, ranks) => {
                let ranks = ranks.or_else(launcher::num_ranks).unwrap_or(1);
                Degrees {
                    x: ranks,
                    ..Degrees::default()
                }
            }
        };
        let ranks = self
            .ranks
            .map_or_else(|| degrees.world_size(), Ok)
            .map_err(train::Error::from)?;
        Grid::for_ranks(degrees, config.parallel.order.or_default(), ranks)
            .map_err(train::Error::from)?;
        // A batch of one sequence makes no demand on the grid: all ranks along Z and Data hold it.
        config
            .model
            .demands()
            .check(&degrees)
            .map_err(train::Error::from)?;
        config.parallel.grid = degrees;
        // The machine of the training run may not be this one.
        config.parallel.machine = None;
        // The matmuls of one sequence are not those that training has timed.
        config.device.matmul_choices = None;
        let threads = || launcher::threads_each(ranks);
        let team = Team::new(ranks, self.threads.unwrap_or_else(threads));
        Ok(team.with_device(config.device_settings()))
    }
}
