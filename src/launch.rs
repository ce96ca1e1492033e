//! Runs the ranks of a grid as threads of this program, or as its processes if `mpirun` or `srun` started it.

use crate::registry;
use bootstrap::{Failure, Processes, World};
use grid::Grid;
use parallel::{Context, Error, Settings};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Display;
use tensor::Device;

pub use job::Job;

/// A job over the vendors and launchers in this build. Its devices are those of the vendor named in
/// `FASCICLE_VENDOR` (`cuda`, `rocm`, `cpu`), or of the first vendor with a device here.
pub fn job() -> Job {
    Job::new(registry::drivers()).processes(registry::processes())
}

/// Runs `body` once per rank of `grid`, and returns the results: [`Job::run`] of [`job`](fn@job).
///
/// # Errors
/// As [`Job::run`].
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
/// As [`Job::run_ranks`].
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

/// The number of ranks, if `mpirun` or `srun` has fixed it; `None` if ranks are threads, of any number.
pub fn num_processes() -> Option<usize> {
    started()
        .and_then(|processes| processes.join().ok())
        .map(|place| place.size)
}

/// Whether this process is the one that prints and cleans up for all.
pub fn is_first() -> bool {
    started()
        .and_then(|processes| processes.join().ok())
        .is_none_or(|place| place.rank == 0)
}

/// Prints a line, from the first process only.
pub fn say(line: &str) {
    if is_first() {
        println!("{line}");
    }
}

// The processes of this process's job, if it has any.
fn started() -> Option<&'static dyn Processes> {
    registry::processes().filter(|_| bootstrap::detect().processes.is_some())
}
