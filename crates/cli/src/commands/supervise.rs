//! `fascicle supervise`: restarts a run whenever its command fails.

use crate::{
    Arguments, Registry,
    commands::{Command, train::Train},
    failure::{Failure, Outcome},
    interrupt,
    supervise::{self, HostList, Limits, Line, Run, Size, Supervisor, hosts},
};
use clap::{Args, Parser};
use hal::environment::table;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Arguments of `fascicle supervise`.
#[derive(Args, Debug)]
pub(crate) struct Supervise {
    /// Hosts of the run, as in a,b or a:4,nid[001-003]:8; by default those of the Slurm job
    #[arg(long, value_name = "LIST", conflicts_with = "hosts_file")]
    hosts: Option<String>,
    /// File that lists the hosts, one per line. When it changes, the run saves a checkpoint after its step and resumes on the new
    /// hosts
    #[arg(long, value_name = "FILE")]
    hosts_file: Option<PathBuf>,
    /// Ranks of each host for which the list states no number
    #[arg(long, value_name = "N")]
    ranks_per_host: Option<usize>,
    /// Failures in a row without a new checkpoint after which the command is started again
    #[arg(long, value_name = "N", default_value_t = 5)]
    restarts: u32,
    /// Seconds without a new step or checkpoint after which the command is ended and started again
    #[arg(long, value_name = "SECONDS", default_value_t = 1800.0)]
    stall: f64,
    /// Seconds in which a host must answer before a new start
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    probe: f64,
    /// Measure the hosts before each start (`fascicle doctor --nodes`), and leave out those that are slower than this fraction of
    /// the median
    #[arg(long, value_name = "FRACTION")]
    screen: Option<f64>,
    /// Leave out a host with a rank that the run finds slow three times in a row (`training.straggler_every`), if the others have
    /// room for the run: it saves a checkpoint after its step and continues without the host
    #[arg(long)]
    exclude_slow: bool,
    /// The command, with places for what changes: {hosts} is a:4,b:3, {names} is a,b, {nodes} is 2, {ranks} is 7
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Supervise {
    /// Starts the command until its run is complete.
    pub(crate) fn run(&self, registry: &Registry) -> Outcome {
        let line = Line::new(self.command.clone())?;
        let (size, run) = trained(registry, &line)?;
        let limits = Limits {
            restarts: self.restarts,
            stall: seconds("--stall", self.stall)?,
            probe: seconds("--probe", self.probe)?,
            screen: self.screen.map(fraction).transpose()?,
            exclude_slow: self.exclude_slow && line.varies(),
        };
        let list = self.list(&line)?;
        let stop = interrupt::watch_plainly(
            "the run stops after this step and saves a checkpoint",
            supervise::end_all,
        );
        let outcome = Supervisor::new(line, list, size, limits, run)?.run(&stop);
        stop.ask();
        outcome
    }

    fn list(&self, line: &Line) -> Outcome<HostList> {
        let slots = self.ranks_per_host;
        let given = self.hosts.is_some() || self.hosts_file.is_some();
        match (line.varies(), given) {
            (false, true) => {
                return Err(Failure::usage(
                    "supervise: found hosts, needs a place for them in the command: {hosts} or {names}",
                ));
            }
            (false, false) => return Ok(HostList::None),
            (true, _) => {}
        }
        if let Some(path) = &self.hosts_file {
            return Ok(HostList::File(path.clone(), slots));
        }
        if let Some(list) = &self.hosts {
            return hosts::parse("--hosts", list, slots).map(HostList::Fixed);
        }
        match table::SLURM_NODES.read() {
            Some(list) => hosts::parse(table::SLURM_NODES.name, &list, slots).map(HostList::Fixed),
            None => Err(Failure::usage(
                "supervise: found no hosts, needs --hosts, --hosts-file, or a Slurm job",
            )),
        }
    }
}

// The numbers of ranks with which the supervised command trains, and its run.
fn trained(registry: &Registry, line: &Line) -> Outcome<(Size, Run)> {
    let train = train_with(line, 1)?;
    let run = train.begins_again().ok_or_else(|| {
        Failure::usage("supervise: found a command that cannot be started again, needs --out DIR --auto-resume, or --resume DIR")
    })?;
    let run = Run {
        dir: Path::to_owned(run),
        training: train.training(&registry.families)?,
    };
    if let Some(ranks) = train.stated_ranks().filter(|_| !line.states_ranks()) {
        return Ok((Size::Fixed(ranks), run));
    }
    let (demands, line) = (train.demands(&registry.families)?, line.clone());
    let most = move |most| {
        let fits = |ranks: &usize| match train_with(&line, *ranks) {
            Ok(train) => train.fits(&demands, *ranks),
            Err(_) => false,
        };
        (1..=most).rev().find(fits)
    };
    Ok((Size::UpTo(Box::new(most)), run))
}

// The program's arguments for this number of ranks.
fn train_with(line: &Line, ranks: usize) -> Outcome<Box<Train>> {
    let arguments = Arguments::try_parse_from(line.program_with(ranks)).map_err(|error| {
        Failure::Usage(format!("supervise: {}", first_line(&error.to_string())))
    })?;
    match arguments.command {
        Command::Train(train) => Ok(train),
        _ => Err(Failure::usage(
            "supervise: found another command of fascicle, needs `fascicle train`",
        )),
    }
}

fn seconds(flag: &str, number: f64) -> Outcome<Duration> {
    let fits = Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| !time.is_zero());
    fits.ok_or_else(|| {
        Failure::Usage(format!(
            "{flag}: found {number}, needs a number of seconds above 0"
        ))
    })
}

fn fraction(number: f64) -> Outcome<f64> {
    match number > 0.0 && number <= 1.0 {
        true => Ok(number),
        false => Err(Failure::Usage(format!(
            "--screen: found {number}, needs above 0 and at most 1"
        ))),
    }
}

fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(command: &str) -> Size {
        let registry = Registry {
            drivers: vec![cpu::driver()],
            processes: None,
            families: families::families(),
        };
        let words = command.split_whitespace().map(str::to_owned).collect();
        trained(&registry, &Line::new(words).unwrap()).unwrap().0
    }

    fn most(command: &str, available: usize) -> Option<usize> {
        match size(command) {
            Size::UpTo(most) => most(available),
            Size::Fixed(ranks) => panic!("{ranks} ranks for {command}"),
        }
    }

    #[test]
    fn ranks_are_as_many_as_the_model_allows() {
        let command = "mpirun --host {hosts} -n {ranks} fascicle train --out r --auto-resume";
        assert_eq!(most(command, 8), Some(8));
        // A prime number of ranks has no grid for this model.
        assert_eq!(most(command, 67), Some(66));
        assert_eq!(most(command, 0), None);
        // A place in the program's own arguments is no fixed number.
        assert_eq!(most(&format!("{command} --ranks {{ranks}}"), 67), Some(66));
        assert_eq!(
            most(&format!("{command} --grid data={{ranks}} --batch 12"), 11),
            Some(6)
        );
        for fixed in ["--ranks 4", "--grid x=2,data=2"] {
            let size = size(&format!("{command} {fixed}"));
            assert!(matches!(size, Size::Fixed(4)), "{fixed}");
        }
    }
}
