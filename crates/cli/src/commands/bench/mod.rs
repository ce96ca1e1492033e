//! `fascicle bench`: how fast products, collectives and whole steps are here.
//!
//! Every timed call begins at a barrier of all ranks, and ends once its work has run. What is reported is the median
//! with the smallest and the largest time, after a warm-up.

mod collectives;
mod gemm;
mod step;
mod workload;

use crate::{failure::Outcome, launcher};
use clap::Subcommand;
use hal::Driver;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The products of the benchmark's model
    Gemm(gemm::Gemm),
    /// all_reduce, all_gather and reduce_scatter between ranks
    Collectives(collectives::Collectives),
    /// Whole training steps on one fixed batch
    Step(Box<step::Step>),
}

impl Bench {
    /// Measures it.
    pub(crate) fn run(&self, drivers: &[Driver]) -> Outcome {
        match self {
            Bench::Gemm(gemm) => launcher::refuse_many("bench gemm").and_then(|()| gemm.run(drivers)),
            Bench::Collectives(collectives) => collectives.run(drivers),
            Bench::Step(step) => step.run(drivers),
        }
    }
}
