//! `fascicle bench step`: complete training steps of one model on one batch, for comparison with other
//! systems.

use super::{
    gemm::GemmShape,
    workload::{self, Running, Sizes},
};
use crate::{
    Registry, device,
    failure::{Failure, Outcome},
    machine,
    numbers::{Spread, counted, fixed, rounded},
    output,
    ranks::Team,
    report,
};
use bootstrap::World;
use clap::Args;
use parallel::Context;
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Instant};
use tensor::{DType, Device, ops::Transpose};
use train::{
    Config, architecture::Text, checkpoint::PlainFile, config::BitsChoice, run::settle_bits,
};

/// Steps excluded from the figures.
const WARM_UP: usize = 2;

/// The peak of GEMMs is the best of this many rounds of this many calls on every rank.
const PEAK_ROUNDS: usize = 6;
const PEAK_CALLS: usize = 4;

/// Arguments of `fascicle bench step`.
#[derive(Args, Debug)]
pub(crate) struct Step {
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    running: Running,
    /// Steps, including two of warm-up
    #[arg(long, value_name = "N", default_value_t = 9)]
    steps: u64,
    /// Start from the weights in this safetensors file, and train on its `ids` if it has any
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    mode: &'static str,
    grid: String,
    reproducible: BitsChoice,
    ranks: usize,
    threads: usize,
    steps: u64,
    step_s: f64,
    min_s: f64,
    max_s: f64,
    loss: f64,
    losses: Vec<f64>,
    peak_mib: Option<f64>,
    tensors_mib: f64,
    gflops: f64,
    peak_gflops: f64,
    share_of_peak: f64,
}

// The measurements of one rank.
struct Measured {
    seconds: Vec<f64>,
    losses: Vec<f64>,
    peak_mib: Option<f64>,
    tensor_bytes: usize,
    peak_gflops: f64,
}

struct StepRun {
    config: Config,
    text: Text,
    weights: Option<PlainFile>,
    ids: Vec<u32>,
}

impl Step {
    /// Prints the figures.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let driver = device::preferred(&registry.drivers)?;
        let weights = self
            .weights
            .as_ref()
            .map(PlainFile::open)
            .transpose()
            .map_err(train::Error::from)?;
        let (families, steps) = (&registry.families, self.steps);
        let mut config = workload::config(
            families,
            &self.sizes,
            &self.running,
            weights.as_ref(),
            steps,
        )?;
        let (threads, settings) = (config.parallel.threads, config.device_settings());
        let device = device::capabilities(driver, threads, settings)?;
        let why_run = settle_bits(&mut config, &device, None)?;
        output::note(&format!(
            "grid {}, each rank {}; bits: {}",
            config.parallel.grid,
            device.description,
            report::bits(&config, why_run.as_deref())
        ));
        let team = Team::of(&config)?;
        let plan = Arc::new(self.plan(config.clone(), weights)?);
        let ranks = team.run(driver, move |world, device| plan.measure(world, device))?;
        let line = self.line(&config, &ranks);
        if self.json {
            output::json(&line)
        } else {
            output::result(&line.text())
        }
    }

    fn plan(&self, config: Config, weights: Option<PlainFile>) -> Outcome<StepRun> {
        let text = workload::text(&config.model)?;
        let ids = match &weights {
            Some(file) if file.contains("ids") => stored_ids(file, text, config.training.batch)?,
            _ => workload::random_ids(text, config.training.batch),
        };
        Ok(StepRun {
            config,
            text,
            weights,
            ids,
        })
    }

    fn line(&self, config: &Config, ranks: &[Measured]) -> Line {
        let first = &ranks[0];
        let kept = first
            .seconds
            .get(WARM_UP..)
            .filter(|kept| !kept.is_empty())
            .unwrap_or(&first.seconds);
        let spread = Spread::of(kept);
        let per_row = config.model.flop_per_row().unwrap_or(f64::NAN);
        let gflops = per_row * config.training.batch as f64 / spread.median / 1e9;
        let peak_gflops = first.peak_gflops;
        let tensor_bytes = ranks
            .iter()
            .map(|rank| rank.tensor_bytes)
            .max()
            .unwrap_or(0);
        Line {
            mode: workload::mode(&config.parallel.grid),
            grid: config.parallel.grid.to_string(),
            reproducible: config.training.reproducible,
            ranks: config.grid().map_or(ranks.len(), |grid| grid.world_size()),
            threads: config.parallel.threads,
            steps: self.steps,
            step_s: rounded(spread.median, 5),
            min_s: rounded(spread.min, 5),
            max_s: rounded(spread.max, 5),
            loss: rounded(first.losses.last().copied().unwrap_or(f64::NAN), 6),
            losses: first.losses.iter().map(|loss| rounded(*loss, 6)).collect(),
            peak_mib: first.peak_mib.map(|mib| rounded(mib, 1)),
            tensors_mib: rounded(tensor_bytes as f64 / (1 << 20) as f64, 1),
            gflops: rounded(gflops, 2),
            peak_gflops: rounded(peak_gflops, 1),
            share_of_peak: rounded(gflops / peak_gflops, 4),
        }
    }
}

fn stored_ids(file: &PlainFile, text: Text, batch: usize) -> Outcome<Vec<u32>> {
    let ids = file.read_u32("ids").map_err(train::Error::from)?;
    let (found, needed) = (ids.len(), batch * (text.context + 1));
    let largest = ids.iter().copied().max().unwrap_or(0) as usize;
    if found != needed {
        return Err(Failure::usage(format!(
            "--weights: `ids` holds {found} tokens, needs batch x (context + 1) = {needed}"
        )));
    }
    match largest < text.vocabulary {
        true => Ok(ids),
        false => {
            let sentence = format!(
                "--weights: `ids` holds token {largest}, needs less than {}",
                text.vocabulary
            );
            Err(Failure::usage(sentence))
        }
    }
}

impl StepRun {
    fn measure(&self, world: &World, device: &Device) -> train::Result<Measured> {
        let (seconds, losses) = self.steps(world, device)?;
        let tensor_bytes = device.memory_use().peak;
        let everyone = world.everyone();
        // Read before the GEMMs below allocate memory of their own.
        everyone.barrier()?;
        let peak_mib = machine::peak_resident_mib();
        everyone.barrier()?;
        let peak_gflops = peak_gflops(world, device, self.config.training.precision.dtype())?;
        Ok(Measured {
            seconds,
            losses,
            peak_mib,
            tensor_bytes,
            peak_gflops,
        })
    }

    fn steps(&self, world: &World, device: &Device) -> train::Result<(Vec<f64>, Vec<f64>)> {
        let config = &self.config;
        let context = Context::new(
            world.clone(),
            config.grid()?,
            device.clone(),
            config.settings(),
        )?;
        let mut trainer = config.trainer(&context)?;
        if let Some(file) = &self.weights {
            trainer.load_weights(file, &["ids"])?;
        }
        let (everyone, mut seconds, mut losses) = (world.everyone(), Vec::new(), Vec::new());
        for step in 0..config.training.steps {
            world.beat(&format!("step {}", step + 1));
            let batch = workload::batch(&trainer, self.text, &self.ids, step)?;
            everyone.barrier()?;
            let begun = Instant::now();
            losses.push(trainer.step(&batch)?.loss);
            device.compute().synchronize()?;
            everyone.barrier()?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
        Ok((seconds, losses))
    }
}

// The best rate that GEMMs reach on all ranks together, which share the processors as they do in a step.
fn peak_gflops(world: &World, device: &Device, dtype: DType) -> train::Result<f64> {
    let matmul = GemmShape {
        what: "peak",
        transpose: Transpose::None,
        m: 1024,
        n: 1024,
        k: 1024,
    };
    let (ready, everyone) = (matmul.ready_as(device, dtype)?, world.everyone());
    let mut shortest = f64::INFINITY;
    for _ in 0..PEAK_ROUNDS {
        everyone.barrier()?;
        let begun = Instant::now();
        (0..PEAK_CALLS).try_for_each(|_| ready.call())?;
        everyone.barrier()?;
        shortest = shortest.min(begun.elapsed().as_secs_f64());
    }
    Ok((PEAK_CALLS * world.size()) as f64 * matmul.flop() / shortest / 1e9)
}

impl Line {
    fn text(&self) -> String {
        let ms = |seconds: f64| fixed(1e3 * seconds, 1);
        let memory = self
            .peak_mib
            .map_or("unknown".into(), |mib| format!("{} MiB", fixed(mib, 0)));
        format!(
            "{} on {}: {} ms per step [{} .. {}], loss {:.5} after {}, {} Gflop/s = {:.0} % of the \
             matmuls' {}, recomputation not counted, {memory} resident at the peak, {} MiB of tensors on a rank",
            self.mode,
            self.grid,
            ms(self.step_s),
            ms(self.min_s),
            ms(self.max_s),
            self.loss,
            counted(self.steps as usize, "step"),
            fixed(self.gflops, 1),
            100.0 * self.share_of_peak,
            fixed(self.peak_gflops, 1),
            fixed(self.tensors_mib, 0)
        )
    }
}
