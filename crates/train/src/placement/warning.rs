//! A one-sentence warning about an axis with much traffic that the nodes split nevertheless.

use super::volumes;
use crate::config::OrderChoice;
use crate::{Config, Result};
use grid::{Axis, Grid, Mapping};
use hal::error::Bytes;
use parallel::Positions;

/// A warning if the axis that moves the most bytes which nothing hides has groups on more than one node, and not because the order
/// that costs least puts another axis inside the nodes.
///
/// # Errors
/// As [`volumes`](fn@volumes).
pub fn warning(config: &Config, grid: &Grid, mapping: &Mapping) -> Result<Option<String>> {
    Ok(warning_of(config, &exposed(config)?, grid, mapping))
}

fn warning_of(
    config: &Config,
    exposed: &[(Axis, u64)],
    grid: &Grid,
    mapping: &Mapping,
) -> Option<String> {
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
    let whole = sizes.iter().all(|size| size.is_multiple_of(degree));
    let way_out = match (config.parallel.positions, config.parallel.order) {
        (Positions::ByNode, OrderChoice::Auto) if whole => return None,
        (Positions::ByNode, OrderChoice::Fixed(_)) if whole => {
            format!("an order that begins with {axis} would hold each group")
        }
        (Positions::ByRank, _) if whole => {
            "parallel.positions = \"by-node\" would hold each group".to_owned()
        }
        _ if degree > *largest => format!("{axis}={largest} or less would fit a node"),
        _ => "nodes whose sizes it divides would hold each group".to_owned(),
    };
    Some(format!(
        "mapping: {} of {} groups of axis {axis} ({degree} ranks, {} per step that nothing hides) span up to {} nodes of {ranks} ranks; {way_out}",
        span.across,
        span.groups,
        Bytes(bytes as usize),
        span.widest.nodes,
    ))
}

// Bytes on each axis that cannot overlap with compute.
fn exposed(config: &Config) -> Result<Vec<(Axis, u64)>> {
    let volumes = volumes(config)?;
    let of = |axis: Axis| {
        let exposed = volumes
            .iter()
            .filter(|volume| volume.axis == axis && !volume.hidden);
        (axis, exposed.map(|volume| volume.bytes).sum())
    };
    Ok(Axis::ALL.into_iter().map(of).collect())
}
