//! Times of collectives and messages for groups of every kind, with all sibling groups active at once.

use super::{
    super::links::{FULL, GroupShape, measure_links},
    MOST_RANKS,
};
use crate::{failure::Outcome, ranks::Team};
use grid::machine::{Machine, Operation, Quantity, links::Timed};
use hal::Driver;

/// Fills in the timed collectives, and the stand-ins for those that were not timed.
pub(super) fn measure(driver: Driver, machine: &mut Machine) -> Outcome {
    let mut measured: Vec<Timed> = Vec::new();
    for ranks in [2, 4, 8].into_iter().filter(|ranks| *ranks <= MOST_RANKS) {
        let all = Team::new(ranks, 1).run(driver, move |world, device| {
            measure_links(world, device, &GroupShape::all(ranks), FULL)
        })?;
        measured.extend(all.into_iter().next().unwrap_or_default());
    }
    let pair = measured
        .iter()
        .find(|timed| timed.operation == Operation::Message);
    if let Some([.., [bytes_before, us_before], [bytes, us]]) =
        pair.map(|timed| timed.points.as_slice())
    {
        let gbps = (bytes - bytes_before) / (us - us_before).max(1e-3) / 1e3;
        machine.links.peer_gbps =
            Quantity::measured(gbps, "fascicle bench --save, messages between 2 ranks");
    }
    let smallest = measured
        .iter()
        .filter_map(|timed| timed.points.first())
        .map(|point| point[1]);
    let smallest = Quantity::measured(
        smallest.reduce(f64::min).unwrap_or(1.0),
        "fascicle bench --save, the fastest small collective",
    );
    (machine.links.base_us, machine.links.in_node_us) = (smallest.clone(), smallest);
    machine.links.measured = measured;
    Ok(())
}
