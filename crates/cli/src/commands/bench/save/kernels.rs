//! Speeds of kernels inside a training step.
//!
//! A step is run and traced, and the same step is simulated on a machine that does one of everything in a second. The
//! ratio of the two times is what a kernel really does: bytes a second, or flop a second of attention.

use crate::{
    failure::{Failure, Outcome},
    ranks::Team,
};
use grid::{
    Degrees,
    machine::{Machine, Quantity},
};
use hal::Driver;
use nn::GptConfig;
use parallel::Context;
use plan::{Candidate, Request, enumerate, picture, simulate};
use std::time::Instant;
use tensor::{DType, Device, Tensor, trace};
use train::{Config, config::Precision, data::Batch as Tokens, trainer::Trainer};

/// Steps before and while the kernels are timed.
const WARM_UP: u64 = 2;
const STEPS: u64 = 5;

/// Calls of the smallest kernel there is.
const SMALL_CALLS: usize = 2000;

/// Bytes of the copies.
const COPY_BYTES: usize = 16 << 20;

/// Fills in the bandwidths, attention and the cost of a launch.
pub(super) fn measure(driver: Driver, cores: usize, machine: &mut Machine) -> Outcome {
    let (copy_gbps, launch_us) = simple(driver, cores)?;
    let source = format!("fascicle bench --save, {cores} ranks at a time");
    machine.device.launch.device_us =
        Quantity::measured(launch_us, format!("{source}, a fill of one element"));
    let (request, candidate) = step(machine, cores)?;
    let real = traced(driver, candidate.config(&request))?;
    // At one byte a second of bandwidth, the simulated time of a kernel is the bytes that it moves.
    let outcome = simulate(&request, &candidate, true).map_err(Failure::run)?;
    let simulated = picture::simulated(&outcome);
    let device = &mut machine.device;
    for ((stream, name), seconds) in &simulated {
        let Some(measured) = real.get(&(stream.clone(), name.clone())).filter(|measured| **measured > 0.0)
        else {
            continue;
        };
        let ratio = seconds / measured;
        let told = |share: f64| Quantity::measured(share, format!("{source}, in a training step"));
        match name.as_str() {
            "attention_forward" => device.attention.forward = told(ratio),
            "attention_backward" => device.attention.backward = told(ratio),
            name if is_kernel(name) => {
                drop(device.kernel_efficiency.insert(name.into(), told(ratio / copy_gbps)));
            }
            _ => {}
        }
    }
    device.kernel_efficiency.remove("attention");
    let mut shares: Vec<f64> = device.kernel_efficiency.values().map(|share| share.value).collect();
    shares.sort_by(f64::total_cmp);
    let middle = shares[shares.len() / 2];
    device
        .kernel_efficiency
        .insert("other".into(), Quantity::measured(middle, "the middle one of the kernels"));
    device
        .kernel_efficiency
        .insert("copy".into(), Quantity::measured(1.0, "what the bandwidth was measured with"));
    device.memory_gbps = Quantity::measured(copy_gbps, format!("{source}, copies of {COPY_BYTES} bytes"));
    device.host_gbps = device.memory_gbps.clone();
    Ok(())
}

// Collectives and products have tables of their own.
fn is_kernel(name: &str) -> bool {
    ![
        "gemm",
        "matmul",
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "send",
        "recv",
        "barrier",
        "copy",
        "upload",
    ]
    .contains(&name)
}

// GB/s of copies, read and written, and microseconds of the smallest kernel.
fn simple(driver: Driver, cores: usize) -> Outcome<(f64, f64)> {
    let ranks = Team::new(cores, 1).run(driver, move |world, device| {
        let (from, to) = (bytes(device)?, bytes(device)?);
        let one = Tensor::zeros(device, DType::F32, &[1])?;
        let mut seconds = Vec::new();
        world.everyone().barrier()?;
        for _ in 0..9 {
            let begun = Instant::now();
            tensor::ops::copy(&from, &to)?;
            device.compute().synchronize()?;
            seconds.push(begun.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let begun = Instant::now();
        (0..SMALL_CALLS).try_for_each(|_| one.fill(1.0))?;
        device.compute().synchronize()?;
        let launch_us = begun.elapsed().as_secs_f64() * 1e6 / SMALL_CALLS as f64;
        Ok((2.0 * COPY_BYTES as f64 / seconds[seconds.len() / 2] / 1e9, launch_us))
    })?;
    Ok(ranks[0])
}

fn bytes(device: &Device) -> train::Result<Tensor> {
    Ok(Tensor::full(device, DType::F32, &[COPY_BYTES / 4], 1.0)?)
}

// The step: a middling model, replicated on every core.
fn step(machine: &Machine, cores: usize) -> Outcome<(Request, Candidate)> {
    let model =
        GptConfig { layers: 2, hidden: 256, heads: 8, context: 128, vocabulary: 512, ..GptConfig::default() };
    let request = Request {
        batch: 8 * cores,
        precision: Precision::F32,
        grid: Some(Degrees { x: 1, y: 1, z: 1, data: cores, pipeline: 1 }),
        micro_batches: Some(1),
        recompute: Some(false),
        sharded_optimiser: Some(false),
        ..Request::new(machine.clone(), cores, "measured", model)
    };
    let candidate = enumerate::candidates(&request).into_iter().next();
    let candidate = candidate.ok_or_else(|| Failure::run(format!("no step for {cores} cores")))?;
    Ok((request, candidate))
}

// Microseconds of a step by stream and name, on rank 0.
fn traced(driver: Driver, config: Config) -> Outcome<picture::Totals> {
    let grid = config.grid()?;
    let ranks = Team::new(grid.world_size(), 1).run(driver, move |world, device| {
        let context = Context::new(world.clone(), grid, device.clone(), config.settings())?;
        let mut trainer = Trainer::new(&context, &config)?;
        let sequence = config.model.context;
        let batch = trainer.shares().cut(&context, 0, |range| {
            let inputs: Vec<u32> = (0..range.len() * sequence).map(|at| (at * 7 % 500) as u32).collect();
            Ok(Tokens { targets: inputs.clone(), inputs })
        })?;
        (0..WARM_UP).try_for_each(|_| trainer.step_on(&batch).map(drop))?;
        trace::start(device);
        (0..STEPS).try_for_each(|_| trainer.step_on(&batch).map(drop))?;
        let mut totals = picture::Totals::new();
        for span in trace::finish(device)? {
            *totals.entry((span.stream, span.name.into())).or_default() += span.duration_us / STEPS as f64;
        }
        Ok(totals)
    })?;
    Ok(ranks.into_iter().next().unwrap_or_default())
}
