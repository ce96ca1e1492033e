//! A lower bound on the cost of a candidate, in closed form, which excludes hopeless candidates before any
//! simulation.
//!
//! The time model adds the GEMMs of every layer, the collectives that nothing can hide, and the part of other
//! collectives that exceeds the compute hiding them. The memory model adds the parameters' bytes and the
//! activations kept until backward. Collectives are priced in the form that will be simulated. Read in this
//! order: `memory`, `stages` (how evenly a model divides into a pipeline), `distances` (what an order of axes
//! changes), `prices`, `attention`, `column_norms`, `matrices`, `lines`, `paging`, `local` (a rank's own work), `sheet` (all of it for one grid and number of rows).

mod attention;
mod column_norms;
mod distances;
mod lines;
mod local;
mod matrices;
mod memory;
mod paging;
mod prices;
mod sheet;
mod stages;

pub(crate) use distances::{ANY, Distances};
pub use memory::{fits, host_memory, memory, on_host};
pub(crate) use sheet::Sheet;
pub(crate) use stages::CostCuts;

use crate::{Candidate, Request};

/// Seconds per step of one candidate.
pub fn step(request: &Request, candidate: &Candidate) -> f64 {
    let distances = Distances::new(&candidate.degrees, &[candidate.order]);
    let cuts = CostCuts::new(&request.work);
    let sheet = Sheet::new(request, candidate, &distances, &cuts);
    distances
        .orders()
        .map(|(_, places)| sheet.step(candidate, places))
        .fold(f64::INFINITY, f64::min)
}
