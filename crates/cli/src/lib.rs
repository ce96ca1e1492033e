//! The program `fascicle`, over whichever vendors it is given.
//!
//! This crate is for programs that are `fascicle` with vendors, launchers or families of their own: fill a [`Registry`] and call
//! [`main`]. To train, install the crate `fascicle` instead, and begin with [Your first
//! model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! Read in this order: [`main`] (arguments in, exit status out), `help` and `usage` (topics, headings and examples; what is wrong with the arguments), `commands` (one file for each), `overrides`
//! and `sets` (flags that override a configuration), `inputs` and `corpus` (a checked configuration, and where its
//! text comes from), `recovery` (what the nodes of a run have kept), `planned` and `this_machine` (what the planner decides, and for which machine), `launcher` and `ranks` (what starts and runs the ranks), `report`, `progress`, `step_numbers` and `ending` (what a person sees of a run),
//! `explain` and `timeline` (a step explained), `supervise` (a run that is restarted when it fails), `failure` (how a command ends), `output` and `layout` (what is printed where, and in which lines).
//!
//! Results go to stdout and everything for people to stderr; `--json` makes results readable for programs.
//! The exit status is 0 on success, 1 if the work failed, 2 if the program was used wrongly, and 3 if a run was asked to stop.

#![forbid(unsafe_code)]

mod calendar;
mod commands;
mod corpus;
mod device;
mod ending;
mod explain;
mod failure;
mod files;
mod grids;
mod help;
mod initial;
mod inputs;
mod interrupt;
mod launcher;
mod layout;
mod machine;
mod numbers;
mod output;
mod overrides;
mod past_run;
mod planned;
mod progress;
mod ranks;
mod recovery;
mod registry;
mod report;
mod resumed;
mod run_dir;
mod sets;
mod step_numbers;
mod supervise;
#[cfg(test)]
mod testing;
mod this_machine;
mod timeline;
mod usage;

use clap::{FromArgMatches, Parser};
use commands::Command;
use failure::{Failure, Outcome};
pub use registry::Registry;
use std::{
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    process::ExitCode,
};

/// Trains networks that do not fit one accelerator.
#[derive(Debug, Parser)]
#[command(
    name = "fascicle",
    version,
    propagate_version = true,
    args_override_self = true
)]
struct Arguments {
    /// Launcher of the ranks: local (threads) or mpi; defaults to mpi under mpirun or srun, otherwise local
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        value_parser = launcher::named,
        help_heading = "Global options"
    )]
    launcher: Option<bootstrap::Launcher>,
    /// Vendor of the devices, such as cuda, rocm or cpu; defaults to the first in this build that has a device
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    vendor: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// Runs the program on the arguments of this process, over the vendors, launchers and families that it carries.
///
/// The exit status is 0 on success, 1 if the work failed, 2 for wrong use, and 3 for a run that was asked to stop. After a failure, ranks may still be
/// stuck in their threads: the caller returns the status from its own `main` without waiting for anything.
pub fn main(registry: &Registry) -> ExitCode {
    panic::set_hook(Box::new(say_bug));
    let parsed = help::command()
        .try_get_matches()
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to stdout and faults to stderr. A reader who closed the pipe wants neither.
            if bootstrap::detect().rank.is_none_or(|rank| rank == 0) {
                match usage::sentence(&error) {
                    Some(sentence) => Failure::Usage(sentence).say(),
                    None => drop(error.print()),
                }
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let run = AssertUnwindSafe(|| arguments.run(registry));
    match panic::catch_unwind(run) {
        Ok(outcome) => ExitCode::from(launcher::end(outcome)),
        // The panic hook has already printed the report.
        Err(_) => ExitCode::from(Failure::FAILED),
    }
}

impl Arguments {
    fn run(&self, registry: &Registry) -> Outcome {
        let Registry {
            drivers,
            processes,
            families,
        } = registry;
        // The doctor reports what was started and with what, even where no other command would run.
        if let Command::Doctor(doctor) = &self.command
            && !doctor.measures()
        {
            return doctor.run(drivers, *processes);
        }
        let chosen = device::chosen(self.vendor.as_deref(), drivers)?;
        launcher::carry(drivers);
        launcher::choose(self.launcher, *processes)?;
        self.command.run(&Registry {
            drivers: chosen,
            processes: *processes,
            families: families.clone(),
        })
    }
}

// A panic is our bug: print one line, with the location that a bug report needs.
fn say_bug(info: &PanicHookInfo<'_>) {
    if train::data::panic_becomes_error() {
        return;
    }
    let place = info
        .location()
        .map_or("an unknown place".into(), ToString::to_string);
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref().map(String::as_str));
    output::note(&format!(
        "fascicle: a bug at {place}: {}",
        text.unwrap_or("no message")
    ));
}
