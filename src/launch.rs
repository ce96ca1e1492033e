//! Running the ranks of a grid as threads of this program.

use bootstrap::local::{Options, run};
use grid::Grid;
use parallel::{Context, Error, Result, Settings};
use tensor::Device;

/// Runs `body` once for each rank of `grid`, on the CPU, and gives what the ranks returned, in their order.
///
/// # Errors
/// The first rank's failure; the others are ended within the watchdog's time.
pub fn launch<T: Send + 'static>(
    grid: Grid,
    settings: Settings,
    body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let ranks = run(Options::new(grid.world_size()), move |world| {
        let device =
            Device::new(cpu::open(cpu::Options { ordinal: world.local_rank(), ..Default::default() })?)?;
        body(&Context::new(world, grid, device, settings)?)
    });
    ranks.map_err(|failure| match failure.error() {
        Some(error) => error.clone(),
        None => Error::Aborted { rank: failure.rank, reason: failure.to_string() },
    })
}
