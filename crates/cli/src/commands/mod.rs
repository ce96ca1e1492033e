//! The commands, one file for each.

pub(crate) mod bench;
pub(crate) mod checkpoint;
mod compare;
mod completions;
mod config;
mod data;
mod diff;
mod doctor;
mod eval;
mod generate;
mod man;
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
    /// Measure a model on texts and questions
    ///
    /// Prints the perplexity of texts and the accuracy on questions of multiple choice, as lm-evaluation-harness defines them.
    Eval(eval::Eval),
    /// Serve a trained model over HTTP
    ///
    /// Answers clients as OpenAI's servers do. Clients find it under /v1, and people a page at /. Ends after SIGTERM or Ctrl-C once the requests that it has are
    /// answered. Needs a build with the feature `serve`.
    Serve(serve::Serve),
    /// Tokenise texts into folders, and verify these
    #[command(subcommand)]
    Data(data::Data),
    /// Find the best grid for a machine
    ///
    /// Runs the training program on simulated devices, and predicts the speed and the memory of each grid.
    Plan(Box<plan::Plan>),
    /// Inspect, compare and convert checkpoints
    #[command(subcommand)]
    Checkpoint(checkpoint::Checkpoint),
    /// Show the progress of a run until it ends
    ///
    /// Another process trains it.
    Watch(watch::Watch),
    /// Put runs beside each other
    ///
    /// Their losses, speed and memory, and the settings that differ.
    Compare(compare::Compare),
    /// Write a page of charts, as one HTML file
    ///
    /// It has charts, memory, traffic and settings of the runs, and needs no network.
    Report(report::Report),
    /// Print steps as CSV, or write for TensorBoard
    Metrics(metrics::Metrics),
    /// Find the first step in which two runs differ
    ///
    /// Also finds the phase and the tensor, whatever the grids of the runs. Compares the losses and the norms of the gradients in metrics.jsonl, and the digests in digests.jsonl, which a run
    /// writes with training.digest_every. Exits with status 0 if all of it is equal, and with status 1 otherwise.
    Diff(diff::Diff),
    /// Run a recorded rank again without the others
    ///
    /// Takes a file of `train --record`. What the others sent, and the rows, come from the file. Exits with status 1 at the first call in which the rank sends
    /// other bits than it did, or makes another call.
    Replay(replay::Replay),
    /// Restart a run when its command fails
    ///
    /// It continues on the hosts that are left. A command after `--` that trains, such as `mpirun --host {hosts} -n {ranks} fascicle train c.toml --out run --auto-resume`.
    /// Each start resumes from the newest checkpoint, on as many ranks as the answering hosts have room for and the model
    /// allows. The exit status is 0 once the run is complete, 3 if it was asked to stop, and 1 if it cannot continue.
    Supervise(supervise::Supervise),
    /// List, check and print configurations
    #[command(subcommand)]
    Config(config::Configuration),
    /// Show what this build and this machine offer
    Doctor(doctor::Doctor),
    /// Measure this machine
    ///
    /// Measures GEMMs, kernels, collectives, training steps or generation, or describes the machine for the planner.
    Bench(bench::Bench),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write man pages into a folder
    Man(man::Man),
}

impl Command {
    /// Does it.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let (drivers, families) = (&registry.drivers[..], &registry.families);
        match self {
            Command::Train(train) => train.run(registry),
            Command::Generate(generate) => generate.run(registry),
            Command::Eval(eval) => eval.run(registry),
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
            Command::Completions(completions) => {
                launcher::refuse_many("completions").and_then(|()| completions.run())
            }
            Command::Man(man) => launcher::refuse_many("man").and_then(|()| man.run()),
        }
    }
}
