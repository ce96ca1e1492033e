//! The order of axes that costs least on the nodes of a job.

use super::{Pricing, cost::route, volumes};
use crate::{Config, Result};
use grid::{Axis, AxisOrder, Grid, Mapping, machine::Machine};
use std::collections::HashSet;

// The machine whose links stand for those of a job of which nothing is known: only that nodes are further apart than
// the ranks of one of them.
const UNKNOWN: &str = "laptop";

// Of traffic that may run beside compute so much is felt, because it takes bandwidth and is not always hidden.
const FELT_OF_HIDDEN: f64 = 0.3;

/// The order of `config`'s axes that costs least where `nodes` holds the node of each rank; the default order on one node.
///
/// # Errors
/// [`Error::Grid`](crate::Error::Grid) when the degrees have no product.
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
    let stand_in = Machine::find(UNKNOWN).ok();
    let Some(machine) = machine.or(stand_in.as_ref()) else {
        return Ok(default);
    };
    let pricing = Pricing {
        machine,
        hierarchical: config.parallel.hierarchical,
    };
    let volumes = volumes(config);
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
        // Of orders that cost the same the one nearest to the default stays.
        if cost < best.1 * (1.0 - 1e-9) {
            best = (order, cost);
        }
    }
    Ok(best.0)
}

// Orders in which the axes that have ranks lie differently.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config(degrees: &str) -> Config {
        let mut config = Config::default();
        config.model.vocabulary = 256;
        config.parallel.grid = degrees.parse().unwrap();
        config
    }

    fn first(config: &Config, nodes: &[usize]) -> Axis {
        let order = best_order(config, nodes, None).unwrap();
        let used = |axis: &&Axis| config.parallel.grid.get(**axis) > 1;
        *order.axes().iter().find(used).unwrap()
    }

    #[test]
    fn what_talks_most_lies_innermost() {
        let halves = [0, 0, 1, 1];
        // A replica's gradients once a step, or two all-reduces of activations a layer and micro-batch.
        assert_eq!(first(&config("x=2,data=2"), &halves), Axis::X);
        assert_eq!(first(&config("y=2,pipeline=2"), &halves), Axis::Y);
        // With very few tokens the weights' gathers are the larger part.
        let mut few = config("x=2,z=2");
        (
            few.training.batch,
            few.model.context,
            few.training.micro_batches,
        ) = (2, 4, 1);
        few.model.hidden = 1024;
        few.parallel.overlap.0 = parallel::Overlap::NONE;
        assert_eq!(first(&few, &halves), Axis::Z);
        assert_eq!(first(&config("x=2,z=2"), &halves), Axis::X);
    }

    #[test]
    fn one_node_keeps_the_default_order() {
        let mut few = config("x=2,z=2,data=2");
        few.model.hidden = 1024;
        assert_eq!(
            best_order(&few, &[0; 8], None).unwrap(),
            AxisOrder::default()
        );
    }

    #[test]
    fn the_machine_that_is_named_decides() {
        // A network faster than the links inside a node turns the order round.
        let mut machine = Machine::find("laptop").unwrap();
        machine.links.injection_gbps.value = 1e4;
        machine.links.peer_gbps.value = 0.01;
        machine.links.network_us.value = machine.links.in_node_us.value;
        let order = best_order(&config("x=2,data=2"), &[0, 0, 1, 1], Some(&machine)).unwrap();
        assert!(
            order.position(Axis::Data) < order.position(Axis::X),
            "{order}"
        );
    }
}
