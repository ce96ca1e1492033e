//! The commands, one file for each.

mod bench;
mod checkpoint;
mod doctor;
mod generate;
mod train;

use crate::failure::{Failure, Outcome};
use clap::Subcommand;
use hal::Driver;

/// What the program can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on this machine's ranks
    Train(Box<train::Train>),
    /// Write text with a trained model
    Generate(generate::Generate),
    /// Look at, check, re-cut or export a checkpoint
    #[command(subcommand)]
    Checkpoint(checkpoint::Checkpoint),
    /// Tell what this build carries and what this machine has
    Doctor(doctor::Doctor),
    /// Measure products, collectives or training steps
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, drivers: &[Driver]) -> Outcome {
        // Only the doctor may run in many processes: it is asked what they are.
        if let Command::Doctor(doctor) = self {
            return doctor.run(drivers);
        }
        bootstrap::refuse_if_launched_many().map_err(Failure::usage)?;
        match self {
            Command::Train(train) => train.run(drivers),
            Command::Generate(generate) => generate.run(drivers),
            Command::Checkpoint(checkpoint) => checkpoint.run(),
            Command::Doctor(doctor) => doctor.run(drivers),
            Command::Bench(bench) => bench.run(drivers),
        }
    }
}
