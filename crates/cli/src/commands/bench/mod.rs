//! `fascicle bench`: the speed of GEMMs, kernels, collectives, complete steps and generation on this machine.
//!
//! Every timed call starts at a barrier of all ranks and ends once its work has run. Reports give the median
//! with the smallest and the largest time, after a warm-up.

mod collectives;
mod file;
pub(crate) mod gemm;
mod generate;
mod kernels;
pub(crate) mod links;
mod random;
mod save;
mod step;
pub(crate) mod timing;
mod workload;

pub(crate) use collectives::join as everyone;
pub(crate) use save::measure;

use crate::{
    Registry,
    failure::{Failure, Outcome},
    launcher,
};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// One measurement, or everything that the planner needs.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    /// Measure this machine for the planner, and write its description
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

/// The available measurements.
#[derive(Debug, Subcommand)]
enum What {
    /// The GEMMs of the benchmark's model
    Gemm(gemm::Gemm),
    /// The kernels of a training step beside the bandwidth of a copy; attention; launches
    Kernels(kernels::Kernels),
    /// all_reduce, all_gather and reduce_scatter between ranks
    Collectives(collectives::Collectives),
    /// Complete training steps on one fixed batch
    Step(Box<step::Step>),
    /// Prefill and decode of sequences of random tokens
    Generate(Box<generate::Generate>),
}

impl Bench {
    /// Measures it.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let drivers = &registry.drivers[..];
        match (&self.what, &self.save) {
            (Some(What::Gemm(gemm)), _) => {
                launcher::refuse_many("bench gemm").and_then(|()| gemm.run(drivers))
            }
            (Some(What::Kernels(kernels)), _) => {
                launcher::refuse_many("bench kernels").and_then(|()| kernels.run(drivers))
            }
            (Some(What::Collectives(collectives)), _) => collectives.run(drivers),
            (Some(What::Step(step)), _) => step.run(registry),
            (Some(What::Generate(generate)), _) => generate.run(registry),
            (None, Some(path)) => {
                launcher::refuse_many("bench --save").and_then(|()| save::save(registry, path))
            }
            (None, None) => Err(Failure::usage(
                "bench: needs gemm, kernels, collectives, step, generate, or --save FILE",
            )),
        }
    }
}
