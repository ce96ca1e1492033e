//! The ranks of a measured step, on the first vendor in this build that finds a device.

use crate::Result;
use fascicle::bootstrap::{self, World, local, processes};
use fascicle::hal::{Driver, OpenOptions};
use fascicle::tensor::Device;
use fascicle::{registry, train};
use std::time::Duration;

/// How long a rank waits for the others: joining thousands of processes takes a while.
const PATIENCE: Duration = Duration::from_secs(600);

/// The number of processes that `mpirun` or `srun` started, including this one; `None` without them.
///
/// # Errors
/// Whatever keeps the launcher's library from starting.
pub fn started() -> Result<Option<usize>> {
    let Some(processes) = launcher() else {
        return Ok(None);
    };
    Ok(Some(processes.world(PATIENCE)?.size()))
}

fn launcher() -> Option<&'static dyn bootstrap::Processes> {
    registry::processes().filter(|_| bootstrap::detect().processes.is_some())
}

/// Runs `body` on every rank and returns the results of the ranks of this process.
///
/// # Errors
/// The first failure of a rank; if no vendor finds a device.
pub fn run<T: Send + 'static>(
    ranks: usize,
    body: impl Fn(&World, &Device) -> train::Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let driver = driver()?;
    let Some(processes) = launcher() else {
        let ranks = local::run(local::Options::new(ranks), move |world| {
            let options = OpenOptions {
                ordinal: world.local_rank(),
                ..OpenOptions::default()
            };
            body(&world, &Device::new((driver.open)(options)?)?)
        });
        return ranks.map_err(|failure| failure.to_string().into());
    };
    let own = processes::run(processes, PATIENCE, move |world| {
        let (ordinal, threads) = (world.local_rank(), processes.threads());
        let options = OpenOptions {
            ordinal,
            threads,
            transport: Some(processes.transport()?),
            ..OpenOptions::default()
        };
        body(&world, &Device::new((driver.open)(options)?)?)
    });
    own.map(|own| vec![own])
        .map_err(|failure| failure.to_string().into())
}

fn driver() -> Result<Driver> {
    let usable = registry::drivers()
        .into_iter()
        .find(|driver| (driver.probe)().usable);
    usable.ok_or_else(|| "no vendor of this build finds a device; see `fascicle doctor`".into())
}
