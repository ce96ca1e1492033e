//! Running the ranks of a grid: as threads of this program, or, where `mpirun` or `srun` started it, as its processes.

use crate::registry;
use bootstrap::local::{self, Options};
use bootstrap::{Failure, Kind, Processes, World, processes};
use grid::Grid;
use hal::{OpenOptions, Transport, driver};
use parallel::{Context, Error, Result, Settings};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Display, sync::Arc};
use tensor::Device;

/// Runs `body` once for each rank of `grid`, each with a device of its own, and gives what the ranks returned, in their order.
///
/// The devices are those of the vendor that `FASCICLE_VENDOR` names (`cuda`, `rocm`, `cpu`), or of the first that this
/// build carries and that has one here, as the program's are without `--vendor`.
///
/// In a build with the feature `mpi` that `mpirun` or `srun` started, this process is one rank: it runs `body` once, and
/// what the ranks returned is sent to all of them, so that the program goes on alike in each process. A grid of one rank
/// is no matter for the others: each process runs it by itself.
///
/// # Errors
/// The first rank's failure; the others are ended within the watchdog's time. [`Error::Invalid`] when the launcher has
/// started another number of processes than the grid has ranks.
pub fn launch<T, E>(
    grid: Grid,
    settings: Settings,
    body: impl Fn(&Context) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    let ranks = ranks(grid.world_size(), move |world, device| {
        body(&Context::new(
            world.clone(),
            grid,
            device.clone(),
            settings,
        )?)
    });
    ranks.map_err(|failure| {
        let (rank, reason) = (failure.rank, failure.to_string());
        match failure.kind {
            Kind::Error(error) => error,
            _ => E::from(Error::Aborted { rank, reason }),
        }
    })
}

/// As [`launch`], with a world and a device for each of `number` ranks.
///
/// # Errors
/// The first rank's failure, with what became of the others.
pub fn ranks<T, E>(
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    match started() {
        Some(processes) if number > 1 => own(processes, number, body),
        Some(_) => threads(number, body),
        None => match bootstrap::refuse_if_launched_many() {
            Err(many) => Err(not_started(many.to_string())),
            Ok(()) => threads(number, body),
        },
    }
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

fn not_started<E>(reason: String) -> Failure<E> {
    Failure {
        rank: 0,
        kind: Kind::NotStarted(reason),
        others: Box::default(),
    }
}

fn threads<T, E>(
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    local::run(Options::new(number), move |world| {
        body(&world, &open(&world, None)?)
    })
}

fn own<T, E>(
    processes: &'static dyn Processes,
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    processes::run(processes, Options::DEFAULT_TIMEOUT, move |world| {
        if world.size() != number {
            let needed = format!(
                "{}, the number of processes that the launcher started",
                world.size()
            );
            return Err(E::from(Error::invalid("ranks", number.to_string(), needed)));
        }
        let device = open(&world, Some(processes.transport()?))?;
        let returned = body(&world, &device)?;
        Ok(gathered(&world, &returned)?)
    })
}

// The device of one rank.
fn open(world: &World, transport: Option<Arc<dyn Transport>>) -> Result<Device> {
    let driver = driver::usable(&driver::carried(None, &registry::drivers())?)?;
    let options = OpenOptions {
        ordinal: world.local_rank(),
        threads: 1,
        transport,
    };
    Device::new((driver.open)(options)?)
}

// What every rank returned, on every rank.
fn gathered<T: Serialize + DeserializeOwned>(world: &World, returned: &T) -> Result<Vec<T>> {
    let told =
        |error: postcard::Error| Error::invalid("launch", error.to_string(), "a result to send");
    let own = postcard::to_stdvec(returned).map_err(told)?;
    let all = world.everyone().all_gather(&own)?;
    all.iter()
        .map(|bytes| postcard::from_bytes(bytes).map_err(told))
        .collect()
}
