//! Ranks on any vendor's devices.

use crate::contract::Open;
use bootstrap::{World, local};
use std::time::Duration;
use tensor::Device;

/// How long a rank waits for others: emulated devices share the host's processors with all other tests.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Runs `body` on `number` threads, each with the device that `open` opens for its rank, and returns the
/// results.
///
/// # Panics
/// With the report of the failure if a rank fails: this is for tests.
pub fn ranks_with<T: Send + 'static>(
    number: usize,
    open: Open,
    body: impl Fn(World, Device) -> train::Result<T> + Send + Sync + 'static,
) -> Vec<T> {
    try_ranks_with(TIMEOUT, number, open, body).unwrap_or_else(|report| panic!("{report}"))
}

/// As [`ranks_with`], but returns the report of a failure, and takes the time that a rank waits for others. The
/// others then have the same time again to end.
///
/// # Errors
/// The report.
pub fn try_ranks_with<T: Send + 'static>(
    timeout: Duration,
    number: usize,
    open: Open,
    body: impl Fn(World, Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>, String> {
    let options = local::Options::new(number)
        .with_timeout(timeout)
        .with_grace(timeout);
    let run = local::run(options, move |world| {
        body(world.clone(), Device::new(open(world.local_rank())?)?)
    });
    run.map_err(|failure| failure.report())
}
