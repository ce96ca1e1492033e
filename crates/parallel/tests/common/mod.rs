//! Ranks as threads, each with a CPU device.

use bootstrap::local;
use fascicle_parallel::{Context, Result, Settings};
use grid::{AxisOrder, Grid};
use tensor::Device;

/// Runs `body` on every rank of a grid, and returns the results.
pub fn on<T: Send + 'static>(
    degrees: &str,
    body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static,
) -> Vec<std::result::Result<T, String>> {
    on_with(degrees, Settings::default(), body)
}

/// Likewise with these settings.
pub fn on_with<T: Send + 'static>(
    degrees: &str,
    settings: Settings,
    body: impl Fn(&Context) -> Result<T> + Send + Sync + 'static,
) -> Vec<std::result::Result<T, String>> {
    let grid = Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap();
    let ranks = grid.world_size();
    let run = local::run(local::Options::new(ranks), move |world| -> Result<_> {
        let device = Device::new(cpu::open(cpu::Options::default())?)?;
        let context = Context::new(world, grid, device, settings)?;
        Ok(body(&context).map_err(|error| error.to_string()))
    });
    run.unwrap_or_else(|failure| panic!("{}", failure.report()))
}
