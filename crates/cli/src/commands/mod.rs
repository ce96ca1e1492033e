//! The commands, one file for each.

pub(crate) mod bench;
mod checkpoint;
mod doctor;
mod generate;
mod plan;
mod train;

use crate::Registry;
use crate::{failure::Outcome, launcher};
use clap::Subcommand;

/// What the program can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on this machine's ranks
    Train(Box<train::Train>),
    /// Write text with a trained model
    Generate(generate::Generate),
    /// Tell which grid to use on a machine, how fast it will be, and whether it fits
    Plan(Box<plan::Plan>),
    /// Look at, check, re-cut or export a checkpoint
    #[command(subcommand)]
    Checkpoint(checkpoint::Checkpoint),
    /// Tell what this build carries and what this machine has
    Doctor(doctor::Doctor),
    /// Measure products, collectives or training steps, or the whole machine for the planner
    Bench(bench::Bench),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let (drivers, families) = (&registry.drivers[..], &registry.families);
        match self {
            Command::Train(train) => train.run(registry),
            Command::Generate(generate) => generate.run(registry),
            Command::Plan(plan) => launcher::refuse_many("plan").and_then(|()| plan.run(families)),
            Command::Checkpoint(checkpoint) => {
                launcher::refuse_many("checkpoint").and_then(|()| checkpoint.run(families))
            }
            Command::Doctor(doctor) => doctor.run(drivers, None),
            Command::Bench(bench) => bench.run(registry),
        }
    }
}
