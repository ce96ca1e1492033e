//! `fascicle bench generate`: prefill and decode of sequences of random tokens, for comparison with other systems.

use super::workload::{self, Running, Sizes};
use crate::{
    Registry, device,
    failure::Outcome,
    numbers::{Spread, counted, fixed, rounded},
    output,
    ranks::Team,
};
use bootstrap::World;
use clap::Args;
use parallel::{Parameter, Quantised};
use serde::Serialize;
use std::time::Instant;
use tensor::Device;
use train::{
    Config,
    architecture::Text,
    config::{FrozenWeights, TuningConfig},
    data::Tokenizer,
    generate::{Generator, GeneratorOptions, Request, Sampling, inference},
    run::settle_bits,
};

/// Parts of the new tokens whose times are reported, to show whether a token costs more the later it comes.
const PARTS: usize = 4;

/// Arguments of `fascicle bench generate`.
#[derive(Args, Debug)]
pub(crate) struct Generate {
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    running: Running,
    /// Tokens of each prompt; the sequences of the batch run at the same time
    #[arg(long, value_name = "N", default_value_t = 16)]
    prompt: usize,
    /// New tokens of each sequence; by default the context is filled
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// How weights of hidden linear layers are stored: in the type of activations, or as codes of 8 or 4 bits
    #[arg(long, value_name = "compute|int8|nf4", default_value_t)]
    frozen_weights: FrozenWeights,
    /// Rounds, after one of warm-up
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    grid: String,
    threads: usize,
    precision: String,
    frozen_weights: String,
    sequences: usize,
    prompt: usize,
    tokens: usize,
    /// Of all sequences together.
    prefill_tokens_per_second: f64,
    decode_tokens_per_second: f64,
    /// Of a decode step, in each quarter of the new tokens.
    decode_step_ms: Vec<f64>,
    weights_mib: f64,
}

// The times of a round: of the steps of prompts together, and of each later step.
struct Round {
    prefill_s: f64,
    decode_s: Vec<f64>,
}

impl Generate {
    /// Prints the figures.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        let mut config = workload::config(&registry.families, &self.sizes, &self.running, None, 1)?;
        let (threads, settings) = (config.parallel.threads, config.device_settings());
        let device = device::capabilities(driver, threads, settings)?;
        settle_bits(&mut config, &device, None)?;
        config.tuning = TuningConfig::all_frozen(self.frozen_weights);
        let text = workload::text(&config.model)?;
        let tokens = self
            .tokens
            .unwrap_or(text.context.saturating_sub(self.prompt).max(1));
        let ids = workload::random_ids(text, config.training.batch);
        let request = |row: usize| Request {
            // Rows of random ids, repeated if the prompt is longer than one.
            prompt: ids
                .iter()
                .copied()
                .cycle()
                .skip(row)
                .take(self.prompt)
                .collect(),
            tokens,
            sampling: Sampling::greedy(),
            ..Request::default()
        };
        let requests: Vec<Request> = (0..config.training.batch).map(request).collect();
        for request in &requests {
            request.check(text.vocabulary)?;
        }
        let (shared, rounds) = (config.clone(), self.rounds.max(1));
        let ranks = Team::of(&config)?.run(driver, move |world, device| {
            measure(world, device, &shared, text, &requests, rounds)
        })?;
        let (measured, weight_bytes) = &ranks[0];
        let sequences = config.training.batch as f64;
        let prefill: Vec<f64> = measured.iter().map(|round| round.prefill_s).collect();
        let decode: Vec<f64> = measured
            .iter()
            .map(|round| round.decode_s.iter().sum())
            .collect();
        let steps = measured.first().map_or(0, |round| round.decode_s.len());
        let part = |index: usize| {
            let range = index * steps / PARTS..(index + 1) * steps / PARTS;
            let all = measured
                .iter()
                .flat_map(|round| &round.decode_s[range.clone()]);
            let all: Vec<f64> = all.copied().collect();
            if all.is_empty() {
                0.0
            } else {
                rounded(1e3 * Spread::of(&all).median, 4)
            }
        };
        let per_second = |tokens: usize, seconds: &[f64]| match tokens {
            0 => 0.0,
            _ => rounded(sequences * tokens as f64 / Spread::of(seconds).median, 1),
        };
        let line = Line {
            grid: config.parallel.grid.to_string(),
            threads,
            precision: config.training.precision.dtype().to_string(),
            frozen_weights: self.frozen_weights.to_string(),
            sequences: config.training.batch,
            prompt: self.prompt,
            tokens,
            prefill_tokens_per_second: per_second(self.prompt, &prefill),
            decode_tokens_per_second: per_second(steps, &decode),
            decode_step_ms: (0..PARTS).map(part).collect(),
            weights_mib: rounded(*weight_bytes / f64::from(1 << 20), 1),
        };
        if self.json {
            return output::json(&line);
        }
        output::result(&line.text())
    }
}

fn measure(
    world: &World,
    device: &Device,
    config: &Config,
    text: Text,
    requests: &[Request],
    rounds: usize,
) -> train::Result<(Vec<Round>, f64)> {
    let context = config.context(world, device)?;
    let pipeline = inference(&context, config)?;
    let bytes_of = |weight: &Parameter| {
        let plain = config.training.precision.dtype().bytes() as f64;
        let each = weight
            .quantised()
            .map_or(plain, Quantised::bytes_per_weight);
        each * weight.global_shape().iter().product::<usize>() as f64
    };
    let weight_bytes = pipeline.declared().iter().map(bytes_of).sum();
    let tokenizer = Tokenizer::ids(text.vocabulary);
    let mut measured = Vec::new();
    for round in 0..=rounds {
        world.beat(&format!("round {round}"));
        let options = GeneratorOptions {
            sequences: requests.len(),
            ..GeneratorOptions::default()
        };
        let mut generator = Generator::new(&pipeline, text, &tokenizer, options)?;
        for request in requests {
            generator.add(request.clone())?;
        }
        let (mut own, mut begun) = (Vec::new(), Instant::now());
        let mut prefill_s = 0.0;
        while !generator.is_idle() {
            let prompts = generator.speed().prefill_tokens;
            generator.step()?;
            let seconds = begun.elapsed().as_secs_f64();
            begun = Instant::now();
            match generator.speed().prefill_tokens > prompts {
                true => prefill_s += seconds,
                false => own.push(seconds),
            }
        }
        if round > 0 {
            measured.push(Round {
                prefill_s,
                decode_s: own,
            });
        }
    }
    Ok((measured, weight_bytes))
}

impl Line {
    fn text(&self) -> String {
        let steps: Vec<String> = self
            .decode_step_ms
            .iter()
            .map(|ms| format!("{ms:.3}"))
            .collect();
        format!(
            "{} on {}, {}{}, {} each: prefill of {} {} tokens/s; decode of {} {} tokens/s, \
             in the quarters {} ms per step; {} MiB of weights",
            counted(self.sequences, "sequence"),
            self.grid,
            self.precision,
            match self.frozen_weights.as_str() {
                "compute" => String::new(),
                codes => format!(" over {codes}"),
            },
            counted(self.threads, "thread"),
            counted(self.prompt, "token"),
            fixed(self.prefill_tokens_per_second, 1),
            counted(self.tokens, "token"),
            fixed(self.decode_tokens_per_second, 1),
            steps.join(", "),
            fixed(self.weights_mib, 0)
        )
    }
}
