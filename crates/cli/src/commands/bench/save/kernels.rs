//! Speeds of kernels inside a training step.
//!
//! A step is run and traced, and the same step is simulated on a machine that does one unit of everything per
//! second. The ratio of the two times is the actual speed of a kernel, in bytes per second, or in flop per
//! second for attention. For GEMMs it is the fraction of the speed that they reach when repeated.

use super::step;
use crate::{
    Registry,
    failure::{Failure, Outcome},
    numbers::Spread,
    ranks::Team,
};
use grid::{
    Degrees,
    machine::{Machine, Quantity},
};
use hal::Driver;
use plan::{picture, simulate};
use std::time::Instant;
use tensor::{DType, Device, Tensor};

/// Calls of the smallest kernel there is.
const SMALL_CALLS: usize = 2000;

/// Bytes of the copies.
const COPY_BYTES: usize = 16 << 20;

/// Fills in the bandwidths, attention and the cost of a launch.
pub(super) fn measure(
    registry: &Registry,
    driver: Driver,
    cores: usize,
    machine: &mut Machine,
) -> Outcome {
    let (copy_gbps, launch_us) = simple(driver, cores)?;
    let source = format!("fascicle bench --save, {cores} ranks at a time");
    machine.device.launch.device_us =
        Quantity::measured(launch_us, format!("{source}, a fill of one element"));
    let (request, candidate) = step::of(
        &registry.families,
        machine,
        Degrees {
            data: cores,
            ..Degrees::default()
        },
    )?;
    let real = step::traced(driver, candidate.config(&request))?;
    // At a bandwidth of one byte per second, the simulated time of a kernel equals the bytes that it moves.
    let outcome = simulate(&request, &candidate, true).map_err(Failure::run)?;
    let simulated = picture::simulated(&outcome);
    let (device, mut in_step) = (&mut machine.device, None);
    for ((stream, name), seconds) in &simulated {
        let Some(measured) = real
            .get(&(stream.clone(), name.clone()))
            .filter(|measured| **measured > 0.0)
        else {
            continue;
        };
        let ratio = seconds / measured;
        let told = |share: f64| Quantity::measured(share, format!("{source}, in a training step"));
        match name.as_str() {
            "matmul" => in_step = Some(told(ratio)),
            "attention_forward" => device.attention.forward = told(ratio),
            "attention_backward" => device.attention.backward = told(ratio),
            name if is_kernel(name) => {
                drop(
                    device
                        .kernel_efficiency
                        .insert(name.into(), told(ratio / copy_gbps)),
                );
            }
            _ => {}
        }
    }
    machine.product.in_step = in_step;
    device.kernel_efficiency.remove("attention");
    let shares: Vec<f64> = device
        .kernel_efficiency
        .values()
        .map(|share| share.value)
        .collect();
    let middle = Spread::of(&shares).median;
    device.kernel_efficiency.insert(
        "other".into(),
        Quantity::measured(middle, "the median of the kernels"),
    );
    device.kernel_efficiency.insert(
        "copy".into(),
        Quantity::measured(1.0, "the operation that measured the bandwidth"),
    );
    device.memory_gbps =
        Quantity::measured(copy_gbps, format!("{source}, copies of {COPY_BYTES} bytes"));
    device.host_gbps = device.memory_gbps.clone();
    Ok(())
}

// Collectives and GEMMs have tables of their own.
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

// GB/s of copies, counting reads and writes, and microseconds of the smallest kernel.
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
        let begun = Instant::now();
        (0..SMALL_CALLS).try_for_each(|_| one.fill(1.0))?;
        device.compute().synchronize()?;
        let launch_us = begun.elapsed().as_secs_f64() * 1e6 / SMALL_CALLS as f64;
        Ok((
            2.0 * COPY_BYTES as f64 / Spread::of(&seconds).median / 1e9,
            launch_us,
        ))
    })?;
    Ok(ranks[0])
}

fn bytes(device: &Device) -> train::Result<Tensor> {
    Ok(Tensor::full(device, DType::F32, &[COPY_BYTES / 4], 1.0)?)
}
