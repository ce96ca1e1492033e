//! The placement of ranks on the grid, computed from the nodes of all ranks of the job.

use crate::{Error, Positions, Result};
use bootstrap::World;
use grid::{Grid, Mapping};

/// The rank that reports, its node, and the number of ranks on that node.
type RankOnNode = [usize; 3];

/// The node of each rank. Collective where there are several nodes.
///
/// # Errors
/// Those of the exchange; [`Error::Invalid`] if a rank's report is not a valid place.
pub fn nodes(world: &World) -> Result<Vec<usize>> {
    if world.num_nodes() == 1 {
        return Ok(vec![0; world.size()]);
    }
    let own: RankOnNode = [world.rank(), world.node(), world.local_size()];
    let told = world
        .everyone()
        .all_gather_numbers(&own.map(|number| number as u64))?;
    let places: Vec<RankOnNode> = told
        .iter()
        .map(|numbers| place(numbers))
        .collect::<Result<_>>()?;
    let is_told_by_itself = |(rank, place): (usize, &RankOnNode)| place[0] == rank;
    match places.iter().enumerate().all(is_told_by_itself) {
        true => Ok(places.iter().map(|place| place[1]).collect()),
        // A few ranks stand for all others, in a job that fills its nodes in order.
        false => {
            let per_node = places
                .iter()
                .map(|place| place[2])
                .max()
                .unwrap_or(1)
                .max(1);
            Ok((0..world.size()).map(|rank| rank / per_node).collect())
        }
    }
}

fn place(numbers: &[u64]) -> Result<RankOnNode> {
    let found = || format!("{} numbers from a rank", numbers.len());
    let place: [u64; 3] = numbers
        .try_into()
        .map_err(|_| Error::invalid("places of ranks", found(), "rank, node and local size"))?;
    Ok(place.map(|number| number as usize))
}

/// The placement of ranks on `grid`. Collective if there are several nodes.
///
/// # Errors
/// As [`nodes`].
pub fn mapping(world: &World, grid: &Grid, positions: Positions) -> Result<Mapping> {
    let nodes = nodes(world)?;
    Ok(match positions {
        Positions::ByNode => Mapping::by_node(grid, nodes),
        Positions::ByRank => Mapping::by_rank(nodes),
    })
}
