//! Runs one program on several grids; shared by the examples that compare losses.

use fascicle::{launch, prelude::*, train};
use serde::{Serialize, de::DeserializeOwned};

/// The results of all ranks of a grid such as `x=2,pipeline=2`; `None` if mpirun started another number of
/// processes.
pub fn on<T: Serialize + DeserializeOwned + Send + 'static>(
    grid: &str,
    body: impl Fn(&Context) -> train::Result<T> + Send + Sync + 'static,
) -> train::Result<Option<Vec<T>>> {
    let degrees: Degrees = grid.parse()?;
    let ranks = degrees.world_size()?;
    if ranks > 1 && launch::num_processes().is_some_and(|started| started != ranks) {
        return Ok(None);
    }
    let grid = Grid::new(degrees, AxisOrder::default())?;
    launch(grid, Settings::default(), body).map(Some)
}

/// Prints the last of these losses.
///
/// # Panics
/// If one of them differs from the serial program's.
pub fn same(what: &str, losses: &[f64], serial: &[f64]) {
    assert_eq!(losses.len(), serial.len(), "{what}");
    for (step, (found, expected)) in losses.iter().zip(serial).enumerate() {
        let close = (found - expected).abs() < 1e-9;
        assert!(close, "{what}: step {step} has {found}, not {expected}");
    }
    launch::say(&format!("{what:<36}{:.6}", losses[losses.len() - 1]));
}
