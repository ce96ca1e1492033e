//! What a candidate costs at least, in closed form: to leave out the hopeless before anything is simulated.
//!
//! Time is a cost model: the products of every layer, the collectives that nothing can hide, and what is longer than the
//! compute that could hide it. Memory is what every run holds: the parameters' bytes, and the activations that wait for
//! their backward. Collectives are priced in the form that will be simulated. Read in this order: `memory`, `stages` (how
//! evenly a model falls into a pipeline), `distances` (what an order of axes changes), `prices`, `sheet` (all of it for one
//! grid and number of rows).

mod distances;
mod memory;
mod prices;
mod sheet;
mod stages;

pub(crate) use distances::{ANY, Distances};
pub use memory::memory;
pub(crate) use sheet::Sheet;

use crate::{Candidate, Request};

/// Seconds of a step of one candidate.
pub fn step(request: &Request, candidate: &Candidate) -> f64 {
    let distances = Distances::new(&candidate.degrees, &[candidate.order]);
    let sheet = Sheet::new(request, candidate, &distances);
    distances
        .orders()
        .map(|(_, places)| sheet.step(candidate, places))
        .fold(f64::INFINITY, f64::min)
}
