//! The library's view of a model: a sequence of segments, the wires between them, and an objective at the end.
//!
//! Read in this order: [`Model`] (what a model declares), `batch` (the rows that it reads), `wires` (the
//! tensors between segments), `cut` (the segments that each pipeline stage holds, and the wires between parts).

mod batch;
mod cut;
mod wires;

pub use batch::{Batch, Input, MicroBatch};
pub(crate) use cut::hops;
pub use cut::{Cut, Link};
pub use wires::{Route, Wires};

use crate::layers::Loss;
use std::ops::Range;
use tensor::Result;

/// A model as a sequence of segments, between any two of which a pipeline may cut it.
///
/// Every rank builds the full model, which costs nothing: a parameter gets memory only on the stages whose
/// segments use it. A segment is ordinary code over [`DTensor`](crate::DTensor)s; the library provides backward
/// passes, messages between stages, recomputation and the reduction of gradients.
pub trait Model {
    /// Number of segments, at least 1.
    fn num_segments(&self) -> usize;

    /// The cost per row of a segment's forward, in flop or in any unit that all segments share. Stages are cut
    /// so that the cost of the costliest one is minimal. `None`, the default, counts two flop per element of
    /// its weight matrices.
    fn cost(&self, _segment: usize) -> Option<f64> {
        None
    }

    /// The kind of a segment, by which settings select it, such as `attention`. By default all are of the kind `segment`.
    fn kind(&self, _segment: usize) -> &str {
        "segment"
    }

    /// The wires between segments; by default one wire called `x` from each segment to the next and to the
    /// objective.
    fn routes(&self) -> Vec<Route> {
        (0..self.num_segments())
            .map(|segment| Route::new("x", segment, segment + 1))
            .collect()
    }

    /// Runs a segment forward: takes the wires whose routes end in it, and returns those that begin in it.
    ///
    /// # Errors
    /// Whatever a layer reports.
    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> Result<Wires>;

    /// The loss, from the wires whose routes end in the objective: at segment [`num_segments`](Model::num_segments).
    ///
    /// # Errors
    /// Whatever a layer reports.
    fn objective(&self, input: &Input<'_>, wires: Wires) -> Result<Loss>;

    /// Whether the model can run on the new tokens of a sequence alone, while its layers keep keys and values of the earlier
    /// ones ([`cache`](crate::cache)). By default it cannot, and generation runs complete sequences for each token.
    ///
    /// It can if earlier tokens are met in [`attention`](fn@crate::layers::attention) alone, and the places of tokens come from
    /// [`rope`](crate::layers::rope), [`places`](crate::layers::places) or [`places_in_documents`](crate::layers::places_in_documents).
    /// To shorten its last segment, it may take only the [`newest`](crate::layers::newest) token.
    fn is_incremental(&self) -> bool {
        false
    }

    /// Runs of segments that recomputation, if enabled, treats as one: only the inputs of a run are kept. By
    /// default each segment is its own run, except the last one, whose backward directly follows its forward.
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

    fn kind(&self, segment: usize) -> &str {
        (**self).kind(segment)
    }

    fn routes(&self) -> Vec<Route> {
        (**self).routes()
    }

    fn forward(&self, segment: usize, input: &Input<'_>, wires: Wires) -> Result<Wires> {
        (**self).forward(segment, input, wires)
    }

    fn objective(&self, input: &Input<'_>, wires: Wires) -> Result<Loss> {
        (**self).objective(input, wires)
    }

    fn is_incremental(&self) -> bool {
        (**self).is_incremental()
    }

    fn recomputed(&self) -> Vec<Range<usize>> {
        (**self).recomputed()
    }
}
