//! The order of axes that costs least on the nodes of a job.

use super::{Pricing, cost::route, volumes};
use crate::{Config, Result};
use grid::{Axis, AxisOrder, Grid, Mapping, machine::Machine};
use std::collections::HashSet;

// The machine whose links stand for those of an unknown job: it is known only that nodes are further apart than
// the ranks within one.
const UNKNOWN: &str = "laptop";

// The fraction of overlappable traffic that counts, because it takes bandwidth and is not always hidden.
const FELT_OF_HIDDEN: f64 = 0.3;

/// The machine that stands for one that is not known.
pub(super) fn stand_in() -> Option<Machine> {
    Machine::find(UNKNOWN).ok()
}

/// The order of `config`'s axes that costs least if `nodes` holds the node of each rank; on one node, the
/// default order.
///
/// # Errors
/// [`Error::Grid`](crate::Error::Grid) when the degrees have no product; as [`volumes`](fn@volumes).
pub fn best_order(
    config: &Config,
    nodes: &[usize],
    machine: Option<&Machine>,
) -> Result<AxisOrder> {
    let degrees = config.parallel.grid;
    let default = AxisOrder::default();
    if nodes.iter().all(|node| *node == nodes[0]) {
        return Ok(default);
    }
    let stand_in = stand_in();
    let Some(machine) = machine.or(stand_in.as_ref()) else {
        return Ok(default);
    };
    let pricing = Pricing {
        machine,
        hierarchical: config.parallel.hierarchical,
    };
    let volumes = volumes(config)?;
    let seconds = |order: AxisOrder| -> Result<f64> {
        let grid = Grid::new(degrees, order)?;
        let mapping = Mapping::by_node(&grid, nodes.to_vec());
        let routes = Axis::ALL.map(|axis| route(&grid, &mapping, axis));
        let one = |volume: &super::Volume| {
            let felt = if volume.hidden { FELT_OF_HIDDEN } else { 1.0 };
            felt * pricing.all(
                volume.operation,
                volume.calls,
                volume.bytes,
                routes[volume.axis as usize],
            )
        };
        Ok(volumes.iter().map(one).sum())
    };
    let mut best = (default, seconds(default)?);
    for order in distinct(config) {
        let cost = seconds(order)?;
        // Among orders of equal cost, the one nearest to the default is kept.
        if cost < best.1 * (1.0 - 1e-9) {
            best = (order, cost);
        }
    }
    Ok(best.0)
}

// Orders that differ in the placement of axes with more than one rank.
fn distinct(config: &Config) -> Vec<AxisOrder> {
    let degrees = config.parallel.grid;
    let mut seen = HashSet::new();
    let used = |order: &AxisOrder| -> Vec<Axis> {
        order
            .axes()
            .iter()
            .copied()
            .filter(|axis| degrees.get(*axis) > 1)
            .collect()
    };
    AxisOrder::all()
        .into_iter()
        .filter(|order| seen.insert(used(order)))
        .collect()
}
