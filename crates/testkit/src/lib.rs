//! For tests: ranks as threads, training as a pure function of a configuration, comparisons with the serial program.

#![forbid(unsafe_code)]

mod compare;
pub mod contract;
mod training;

pub use compare::{Difference, difference};
pub use training::{Outcome, config, fixed_tokens, train};

use bootstrap::{World, local};
use std::time::Duration;

/// Runs `body` on `ranks` threads, each with a CPU device, and gives what they returned.
///
/// # Panics
/// With the report of the failure when a rank fails: this is for tests.
pub fn ranks<T: Send + 'static>(
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Vec<T> {
    try_ranks(ranks, body).unwrap_or_else(|report| panic!("{report}"))
}

/// As [`ranks`](fn@ranks), giving the report of a failure.
///
/// # Errors
/// The report.
pub fn try_ranks<T: Send + 'static>(
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    try_ranks_within(Duration::from_secs(30), ranks, body)
}

/// As [`try_ranks`], with the time that a rank waits for others; as long again, the others have to end.
///
/// # Errors
/// The report.
pub fn try_ranks_within<T: Send + 'static>(
    timeout: Duration,
    ranks: usize,
    body: impl Fn(World, tensor::Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    let options = local::Options::new(ranks).with_timeout(timeout).with_grace(timeout);
    let run = local::run(options, move |world| {
        let options = cpu::Options { ordinal: world.local_rank(), ..cpu::Options::default() };
        body(world.clone(), tensor::Device::new(cpu::open(options)?)?)
    });
    run.map_err(|failure| failure.report())
}
