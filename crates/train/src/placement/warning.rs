//! A chatty axis that the nodes split all the same, in one sentence.

use super::volumes;
use crate::Config;
use grid::{Axis, Grid, Mapping};
use hal::error::Bytes;

/// A warning where the axis that moves most bytes which nothing hides has groups on more than one node.
pub fn warning(config: &Config, grid: &Grid, mapping: &Mapping) -> Option<String> {
    let exposed = exposed(config);
    let (axis, bytes) = *exposed.iter().max_by_key(|(_, bytes)| *bytes)?;
    let span = mapping.span(grid, axis);
    if span.across == 0 || bytes == 0 {
        return None;
    }
    let (degree, sizes) = (grid.degree(axis), mapping.node_sizes());
    let (smallest, largest) = (sizes.iter().min()?, sizes.iter().max()?);
    let ranks = if smallest == largest {
        format!("{largest}")
    } else {
        format!("{smallest} to {largest}")
    };
    let way_out = match degree <= *largest {
        true => "nodes whose sizes it divides would hold each group".to_owned(),
        false => format!("{axis}={largest} or less would fit a node"),
    };
    Some(format!(
        "mapping: {} of {} groups of axis {axis} ({degree} ranks, {} a step that nothing hides) span up to {} nodes of {ranks} ranks; {way_out}",
        span.across,
        span.groups,
        Bytes(bytes as usize),
        span.widest.nodes,
    ))
}

// Bytes on each axis that cannot run beside compute.
fn exposed(config: &Config) -> Vec<(Axis, u64)> {
    let volumes = volumes(config);
    let of = |axis: Axis| {
        let exposed = volumes
            .iter()
            .filter(|volume| volume.axis == axis && !volume.hidden);
        (axis, exposed.map(|volume| volume.bytes).sum())
    };
    Axis::ALL.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grid::AxisOrder;

    fn sentence(degrees: &str, nodes: &[usize]) -> Option<String> {
        let mut config = Config::default();
        config.model.vocabulary = 256;
        config.parallel.grid = degrees.parse().unwrap();
        let grid = Grid::new(config.parallel.grid, AxisOrder::default()).unwrap();
        warning(&config, &grid, &Mapping::by_node(&grid, nodes.to_vec()))
    }

    #[test]
    fn only_a_split_of_the_chattiest_axis_is_told() {
        let even = [0, 0, 0, 0, 1, 1, 1, 1];
        assert_eq!(sentence("x=4,data=2", &even), None);
        assert_eq!(sentence("x=2,z=2,pipeline=2", &even), None);
        let wide = sentence("x=8", &even).unwrap();
        assert!(
            wide.contains("1 of 1 groups of axis x (8 ranks, "),
            "{wide}"
        );
        assert!(
            wide.ends_with("span up to 2 nodes of 4 ranks; x=4 or less would fit a node"),
            "{wide}"
        );
        let odd = sentence("x=2,data=4", &[0, 0, 0, 1, 1, 1, 1, 1]).unwrap();
        assert!(
            odd.contains("1 of 4 groups of axis x") && odd.contains("nodes of 3 to 5 ranks"),
            "{odd}"
        );
    }
}
