//! Running the ranks of a grid: as threads of this program, or, where `mpirun` or `srun` started it, as its processes.

use crate::registry;
use bootstrap::local::{self, Options};
use bootstrap::{Failure, Kind, Processes, World, processes};
use grid::Grid;
use parallel::{Context, Error, Result, Settings};
use std::fmt::Display;
use tensor::Device;

/// Runs `body` once for each rank of `grid`, on the CPU, and gives what the ranks returned, in their order.
///
/// In a build with the feature `mpi` that `mpirun` or `srun` started, this process is one rank: it runs `body` once, and
/// the result holds what that returned.
///
/// # Errors
/// The first rank's failure; the others are ended within the watchdog's time. [`Error::Invalid`] when the launcher has
/// started another number of processes than the grid has ranks.
pub fn launch<T: Send + 'static>(
    grid: Grid,
    settings: Settings,
    body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let ranks = ranks(grid.world_size(), move |world, device| {
        body(&Context::new(world.clone(), grid, device.clone(), settings)?)
    });
    ranks.map_err(|failure| match failure.error() {
        Some(error) => error.clone(),
        None => Error::Aborted { rank: failure.rank, reason: failure.to_string() },
    })
}

/// As [`launch`], with a world and a CPU device for each of `number` ranks.
///
/// # Errors
/// The first rank's failure, with what became of the others.
pub fn ranks<T, E>(
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    match started() {
        Some(processes) => own(processes, number, body).map(|own| vec![own]),
        None => threads(number, body),
    }
}

// The processes that this one belongs to, if it does.
fn started() -> Option<&'static dyn Processes> {
    registry::processes().filter(|_| bootstrap::detect().processes.is_some())
}

fn threads<T, E>(
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    if let Err(many) = bootstrap::refuse_if_launched_many() {
        return Err(Failure { rank: 0, kind: Kind::NotStarted(many.to_string()), others: Box::default() });
    }
    local::run(Options::new(number), move |world| {
        let options = cpu::Options { ordinal: world.local_rank(), ..Default::default() };
        body(&world, &Device::new(cpu::open(options)?)?)
    })
}

fn own<T, E>(
    processes: &'static dyn Processes,
    number: usize,
    body: impl Fn(&World, &Device) -> Result<T, E> + Send + Sync + 'static,
) -> Result<T, Failure<E>>
where
    T: Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    processes::run(processes, Options::DEFAULT_TIMEOUT, move |world| {
        if world.size() != number {
            let needed = format!("{}, the number of processes that the launcher started", world.size());
            return Err(E::from(Error::invalid("ranks", number.to_string(), needed)));
        }
        let transport = Some(processes.transport()?);
        let options = cpu::Options { ordinal: world.local_rank(), transport, ..Default::default() };
        body(&world, &Device::new(cpu::open(options)?)?)
    })
}
