//! For tests: ranks as threads, training as a pure function of a configuration, comparisons with the serial program.

#![forbid(unsafe_code)]

pub mod bits;
mod configured;
pub mod contract;
mod delayed;
pub mod faults;
mod nodes;
pub mod numbers;
mod rows;
mod runs;
mod training;
mod tunings;
mod vendors;

pub use configured::{device, edited};
pub use delayed::{announced_steps, stored};
pub use nodes::ranks_on;
pub use rows::{assert_near, scaled, train_rows};
pub use runs::{Watched, config_of_bytes, dataset, digest_of, new_run, ran, run_of_bytes};
pub use testing::{Difference, Outcome, difference};
pub use training::{
    all_grids, config, edit_gpt, fixed_batch, fixed_tokens, gpt, grids, in_turn, is_exhaustive, on,
    serial, train, train_on, train_steps, train_with,
};
pub use tunings::tunings;
pub use vendors::{ranks_with, try_ranks_with};

use bootstrap::{Processes, World, local, processes};
use std::{sync::OnceLock, time::Duration};

/// Pipeline schedules of every kind, by name.
pub const SCHEDULES: [&str; 7] = [
    "gpipe",
    "1f1b",
    "interleaved:2",
    "zb-h1",
    "zb-v",
    "message-driven",
    "message-driven:1",
];

/// The processes of this job, if its ranks are processes.
static PROCESSES: OnceLock<&'static dyn Processes> = OnceLock::new();

/// From now on, worlds as large as the job run on the job's processes; smaller worlds stay threads in each of
/// them.
pub fn use_processes(processes: &'static dyn Processes) {
    let _ = PROCESSES.set(processes);
}

/// Runs `body` on `ranks` threads, each with a CPU device, and returns the results.
///
/// # Panics
/// With the report of the failure if a rank fails: this is for tests.
pub fn ranks<T: Send + 'static>(
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Vec<T> {
    try_ranks(ranks, body).unwrap_or_else(|report| panic!("{report}"))
}

/// As [`ranks`](fn@ranks), but returns the report of a failure.
///
/// # Errors
/// The report.
pub fn try_ranks<T: Send + 'static>(
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    try_ranks_within(Duration::from_secs(30), ranks, body)
}

/// As [`try_ranks`], with the time that a rank waits for others. The others then have the same time again to
/// end.
///
/// # Errors
/// The report.
pub fn try_ranks_within<T: Send + 'static>(
    timeout: Duration,
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    let of_this_size =
        |processes: &&dyn Processes| processes.join().is_ok_and(|place| place.size == ranks);
    if let Some(processes) = PROCESSES
        .get()
        .copied()
        .filter(of_this_size)
        .filter(|_| ranks > 1)
    {
        return own(processes, timeout, body).map(|own| vec![own]);
    }
    let options = local::Options::new(ranks)
        .with_timeout(timeout)
        .with_grace(timeout);
    let run = local::run(options, move |world| {
        let options = cpu::Options {
            ordinal: world.local_rank(),
            ..cpu::Options::default()
        };
        body(world.clone(), tensor::Device::new(cpu::open(options)?)?)
    });
    run.map_err(|failure| failure.report())
}

fn own<T: Send + 'static>(
    processes: &'static dyn Processes,
    timeout: Duration,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<T, String> {
    let run = processes::run(processes, timeout, move |world| -> train::Result<T> {
        let transport = Some(processes.transport()?);
        let options = cpu::Options {
            ordinal: world.local_rank(),
            transport,
            ..cpu::Options::default()
        };
        body(world.clone(), tensor::Device::new(cpu::open(options)?)?)
    });
    run.map_err(|failure| failure.report())
}
