//! What a model is to the library: a sequence of segments, the wires between them, and an objective at the end.
//!
//! Read in this order: [`Model`] (what a model says of itself), `batch` (the rows that it reads), `wires` (what flows
//! between segments), `cut` (which segments each pipeline stage holds, and what crosses from one to another).

mod batch;
mod cut;
mod wires;

pub use batch::{Batch, MicroBatch};
pub use cut::{Cut, Link};
pub use wires::{Route, Wires};

use crate::{Pass, layers::Loss};
use std::ops::Range;
use tensor::Result;

/// A model as a sequence of segments, between any two of which a pipeline may cut it.
///
/// Every rank builds the whole model, which costs nothing: a parameter gets memory only on the stages whose segments use
/// it. A segment is ordinary code over [`DTensor`](crate::DTensor)s; backward passes, messages between stages,
/// recomputation and the reduction of gradients are the library's.
pub trait Model {
    /// Number of segments, at least 1.
    fn num_segments(&self) -> usize;

    /// What a segment's forward costs per row, in flop or in any unit that all segments share: stages are cut so that the
    /// most costly one costs least. `None`, the default, counts two flop for each element of its weight matrices.
    fn cost(&self, _segment: usize) -> Option<f64> {
        None
    }

    /// What flows between segments, by default one wire called `x` from each segment to the next and to the objective.
    fn routes(&self) -> Vec<Route> {
        (0..self.num_segments())
            .map(|segment| Route::new("x", segment, segment + 1))
            .collect()
    }

    /// Runs a segment forward: takes the wires whose routes end in it, and gives those that begin in it.
    ///
    /// # Errors
    /// Whatever a layer reports.
    fn forward(
        &self,
        segment: usize,
        pass: &Pass,
        batch: &MicroBatch,
        wires: Wires,
    ) -> Result<Wires>;

    /// The loss, from the wires whose routes end in the objective: at segment [`num_segments`](Model::num_segments).
    ///
    /// # Errors
    /// Whatever a layer reports.
    fn objective(&self, pass: &Pass, batch: &MicroBatch, wires: Wires) -> Result<Loss>;

    /// Runs of segments that recomputation treats as one, where it is switched on: only what enters a run is kept. By
    /// default each segment by itself, but for the last one, whose backward comes right after its forward.
    fn recomputed(&self) -> Vec<Range<usize>> {
        (0..self.num_segments().saturating_sub(1))
            .map(|segment| segment..segment + 1)
            .collect()
    }
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn num_segments(&self) -> usize {
        (**self).num_segments()
    }

    fn cost(&self, segment: usize) -> Option<f64> {
        (**self).cost(segment)
    }

    fn routes(&self) -> Vec<Route> {
        (**self).routes()
    }

    fn forward(
        &self,
        segment: usize,
        pass: &Pass,
        batch: &MicroBatch,
        wires: Wires,
    ) -> Result<Wires> {
        (**self).forward(segment, pass, batch, wires)
    }

    fn objective(&self, pass: &Pass, batch: &MicroBatch, wires: Wires) -> Result<Loss> {
        (**self).objective(pass, batch, wires)
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        (**self).recomputed()
    }
}
