//! What starts the ranks: either threads of this process, or `mpirun` and `srun`, which start the program
//! once per rank.
//!
//! A process has one launcher for its lifetime, as it has one stdout. The launcher is chosen once, before any
//! command.

use crate::{
    failure::{Failure, Outcome},
    machine, output,
};
use bootstrap::{Launcher, Processes, local::Options};
use hal::{Driver, driver};
use std::{path::PathBuf, sync::OnceLock};

/// The processes of this job, if its ranks are processes.
static PROCESSES: OnceLock<&'static dyn Processes> = OnceLock::new();

/// The vendor of the host's processors, if the program carries it.
static HOST: OnceLock<Driver> = OnceLock::new();

/// The value of `--launcher`.
pub(crate) fn named(name: &str) -> Result<Launcher, String> {
    [Launcher::Local, Launcher::Mpi]
        .into_iter()
        .find(|launcher| launcher.name() == name)
        .ok_or_else(|| "needs local or mpi".to_owned())
}

/// Uses the requested launcher, or the one that started this process, and joins the job if there is one.
///
/// In a job of processes only the first rank prints.
pub(crate) fn choose(asked: Option<Launcher>, carried: Option<&'static dyn Processes>) -> Outcome {
    let launched = bootstrap::detect().processes.is_some();
    match (asked, carried) {
        (Some(Launcher::Mpi), None) => Err(Failure::usage(
            "--launcher: found mpi, needs local: this program was built without the feature `mpi`",
        )),
        (Some(Launcher::Mpi), Some(processes)) => join(processes).map(|()| tell(processes)),
        (None, Some(processes)) if launched => join(processes).map(|()| tell(processes)),
        _ => bootstrap::refuse_if_launched_many().map_err(Failure::usage),
    }
}

/// Joins the job in which this process is a rank; only its first rank prints.
pub(crate) fn join(processes: &'static dyn Processes) -> Outcome {
    if processes.join().map_err(Failure::run)?.rank > 0 {
        output::silence();
    }
    let _ = PROCESSES.set(processes);
    Ok(())
}

fn tell(processes: &dyn Processes) {
    output::note(&format!("mpi        {}", processes.findings().join("; ")));
}

/// Remembers which of the program's vendors computes on the host's processors.
pub(crate) fn carry(drivers: &[Driver]) {
    if let Some(host) = driver::of_host(drivers) {
        let _ = HOST.set(host);
    }
}

/// The vendor of the host's processors, for work beside a rank's device.
pub(crate) fn host() -> Option<Driver> {
    HOST.get().copied()
}

/// The processes of this job, if its ranks are processes.
pub(crate) fn processes() -> Option<&'static dyn Processes> {
    PROCESSES.get().copied()
}

/// Whether a job of processes is ending because of a failure, which also asks its processes to end.
pub(crate) fn is_ending() -> bool {
    processes().is_some_and(Processes::is_ending)
}

/// From now on, the death of a process leaves the others alive.
pub(crate) fn outlive() -> Outcome {
    let Some(processes) = processes() else {
        return Err(Failure::usage(
            "--survive: found ranks that are threads of one process, needs processes, as under mpirun",
        ));
    };
    let outlive = processes.outlive();
    outlive.map_err(|error| Failure::Usage(format!("--survive: {error}")))
}

/// Whether processes have died, and the survivors may form another job.
pub(crate) fn goes_on() -> bool {
    processes().is_some_and(Processes::goes_on)
}

/// Makes a job of the survivors, as many as `choose` says, and returns their number. Its first rank prints from now on.
pub(crate) fn reform(choose: &dyn Fn(usize) -> Option<usize>) -> Outcome<usize> {
    let Some(processes) = processes() else {
        return Ok(1);
    };
    let before = processes.findings();
    let place = processes.reform(choose).map_err(Failure::run)?;
    match place.rank {
        0 => output::speak(),
        _ => output::silence(),
    }
    if processes.findings() != before {
        tell(processes);
    }
    Ok(place.size)
}

/// The number of ranks, if the launcher has fixed it.
pub(crate) fn num_ranks() -> Option<usize> {
    processes()
        .and_then(|processes| processes.join().ok())
        .map(|place| place.size)
}

/// Threads available to each of `ranks` ranks.
pub(crate) fn threads_each(ranks: usize) -> usize {
    let shared = || (machine::cores() / ranks).max(1);
    processes().map_or_else(shared, |processes| processes.threads())
}

/// Refuses to run a single-process command where several processes were started.
pub(crate) fn refuse_many(command: &str) -> Outcome {
    match num_ranks() {
        Some(ranks) if ranks > 1 => Err(Failure::usage(format!(
            "{command}: found {ranks} processes, needs 1: it runs in one process; start it without mpirun or srun"
        ))),
        _ => Ok(()),
    }
}

/// Runs `work` on the first rank and returns its path on all ranks. Every rank arrives here before it begins.
pub(crate) fn once(work: impl FnOnce() -> Outcome<PathBuf>) -> Outcome<PathBuf> {
    // A path that is not text stays what it is.
    if processes().is_none() {
        return work();
    }
    once_in_words(|| Ok(work()?.to_string_lossy().into_owned())).map(PathBuf::from)
}

/// Runs `work` on the first rank and returns its text on all ranks. Every rank arrives here before it begins.
pub(crate) fn once_in_words(work: impl FnOnce() -> Outcome<String>) -> Outcome<String> {
    let Some(processes) = processes() else {
        return work();
    };
    let everyone = processes
        .world(Options::DEFAULT_TIMEOUT)
        .map_err(Failure::run)?
        .everyone();
    everyone.barrier().map_err(Failure::run)?;
    let own = match everyone.rank() {
        0 => work()?,
        _ => String::new(),
    };
    let text = everyone
        .broadcast(0, own.as_bytes())
        .map_err(Failure::run)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Ends the job with this outcome, prints what is left to report, and returns the exit status.
///
/// In a job of processes, only one process returns from a failure, and it reports for all.
pub(crate) fn end(outcome: Outcome) -> u8 {
    let status = outcome.as_ref().err().map_or(0, Failure::status);
    let has_failed = !matches!(status, 0 | Failure::STOPPED);
    if let (Some(processes), true) = (processes(), has_failed) {
        let reason = outcome
            .as_ref()
            .err()
            .and_then(Failure::sentence)
            .unwrap_or_default();
        processes.fail(reason, true);
        output::speak();
    }
    if let Err(failure) = &outcome {
        failure.say();
    }
    if let Some(processes) = processes() {
        // A job that was asked to stop has not failed: its processes take leave of each other.
        processes.end(if has_failed { status } else { 0 });
    }
    status
}
