//! Running the ranks of a grid: as threads of this program, or, where `mpirun` or `srun` started it, as its processes.

use crate::registry;
use bootstrap::{Failure, Processes, World};
use grid::Grid;
use parallel::{Context, Error, Settings};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Display;
use tensor::Device;

pub use job::Job;

/// A job over the vendors and launchers that this build carries: the devices are those of the vendor that
/// `FASCICLE_VENDOR` names (`cuda`, `rocm`, `cpu`), or of the first that has one here.
pub fn job() -> Job {
    Job::new(registry::drivers()).processes(registry::processes())
}

/// Runs `body` once for each rank of `grid`, and gives what the ranks returned: [`Job::run`] of [`job`](fn@job).
///
/// # Errors
/// As there.
pub fn launch<T, E>(
    grid: Grid,
    settings: Settings,
    body: impl Fn(&Context) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    let job = job().degrees(grid.degrees()).order(grid.order());
    job.settings(settings).run(body)
}

/// As [`launch`], with a world and a device for each of `number` ranks: [`Job::run_ranks`].
///
/// # Errors
/// As there.
pub fn ranks<T, E>(
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    job().ranks(number).run_ranks(body)
}

/// The number of ranks, where `mpirun` or `srun` has decided it; `None` where ranks are threads, of any number.
pub fn num_processes() -> Option<usize> {
    started()
        .and_then(|processes| processes.join().ok())
        .map(|place| place.size)
}

/// Whether this process is the one that prints and tidies up for all.
pub fn is_first() -> bool {
    started()
        .and_then(|processes| processes.join().ok())
        .is_none_or(|place| place.rank == 0)
}

/// Prints a line; of several processes, only the first one does.
pub fn say(line: &str) {
    if is_first() {
        println!("{line}");
    }
}

// The processes that this one belongs to, if it does.
fn started() -> Option<&'static dyn Processes> {
    registry::processes().filter(|_| bootstrap::detect().processes.is_some())
}
