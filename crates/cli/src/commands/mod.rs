//! The commands, one file for each.

pub(crate) mod bench;
pub(crate) mod checkpoint;
mod compare;
mod config;
mod data;
mod diff;
mod doctor;
mod generate;
mod metrics;
mod on_ranks;
mod plan;
mod replay;
mod report;
mod serve;
mod supervise;
mod train;
mod watch;

use crate::Registry;
use crate::{failure::Outcome, launcher};
use clap::Subcommand;

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model
    Train(Box<train::Train>),
    /// Generate text with a trained model
    Generate(generate::Generate),
    /// Answer clients over HTTP with a trained model, as OpenAI's servers do
    ///
    /// Clients find it under /v1, and people a page at /. Ends after SIGTERM or Ctrl-C once the requests that it has are
    /// answered. Needs a build with the feature `serve`.
    Serve(serve::Serve),
    /// Tokenise texts into token folders, and verify these
    #[command(subcommand)]
    Data(data::Data),
    /// Find the best grid for a machine, and predict its speed and memory
    Plan(Box<plan::Plan>),
    /// Inspect, verify, digest, compare, audit, recover, reshard, import or export checkpoints
    #[command(subcommand)]
    Checkpoint(checkpoint::Checkpoint),
    /// Show the progress of a run that another process trains, until it ends
    Watch(watch::Watch),
    /// Put runs beside each other: losses, speed, and the settings that differ
    Compare(compare::Compare),
    /// Write a page with charts and settings of runs, as one HTML file
    Report(report::Report),
    /// Print the records of runs as CSV, or write them for TensorBoard
    Metrics(metrics::Metrics),
    /// Find the first step, phase and tensor in which two runs differ, whatever their grids
    ///
    /// Compares the losses and the norms of the gradients in metrics.jsonl, and the digests in digests.jsonl, which a run
    /// writes with training.digest_every. Exits with status 0 if all of it is equal, and with status 1 otherwise.
    Diff(diff::Diff),
    /// Run a rank that `train --record` has recorded again, without the others
    ///
    /// What the others sent, and the rows, come from the file. Exits with status 1 at the first call in which the rank sends
    /// other bits than it did, or makes another call.
    Replay(replay::Replay),
    /// Restart a run when its command fails, on the hosts that are left
    ///
    /// A command after `--` that trains, such as `mpirun --host {hosts} -n {ranks} fascicle train c.toml --out run --auto-resume`.
    /// Each start resumes from the newest checkpoint, on as many ranks as the answering hosts have room for and the model
    /// allows. The exit status is 0 once the run is complete, 3 if it was asked to stop, and 1 if it cannot continue.
    Supervise(supervise::Supervise),
    /// List the keys of a configuration, check configuration files, or print a complete one
    #[command(subcommand)]
    Config(config::Configuration),
    /// Show what this build supports and what this machine offers
    Doctor(doctor::Doctor),
    /// Measure GEMMs, kernels, collectives or training steps, or describe this machine for the planner
    Bench(bench::Bench),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let (drivers, families) = (&registry.drivers[..], &registry.families);
        match self {
            Command::Train(train) => train.run(registry),
            Command::Generate(generate) => generate.run(registry),
            Command::Serve(serve) => serve.run(registry),
            Command::Plan(plan) => launcher::refuse_many("plan").and_then(|()| plan.run(families)),
            Command::Checkpoint(checkpoint) => checkpoint.run(registry),
            Command::Watch(watch) => launcher::refuse_many("watch").and_then(|()| watch.run()),
            Command::Compare(compare) => {
                launcher::refuse_many("compare").and_then(|()| compare.run())
            }
            Command::Report(report) => launcher::refuse_many("report").and_then(|()| report.run()),
            Command::Metrics(metrics) => {
                launcher::refuse_many("metrics").and_then(|()| metrics.run())
            }
            Command::Diff(diff) => launcher::refuse_many("diff").and_then(|()| diff.run()),
            Command::Replay(replay) => {
                launcher::refuse_many("replay").and_then(|()| replay.run(registry))
            }
            Command::Supervise(supervise) => {
                launcher::refuse_many("supervise").and_then(|()| supervise.run(registry))
            }
            Command::Config(config) => {
                launcher::refuse_many("config").and_then(|()| config.run(families))
            }
            Command::Data(data) => launcher::refuse_many("data").and_then(|()| data.run()),
            Command::Doctor(doctor) => doctor.run(drivers, None),
            Command::Bench(bench) => bench.run(registry),
        }
    }
}
