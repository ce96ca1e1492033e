//! Layers, and the builder that declares them.
//!
//! A model is ordinary code: it asks a [`Builder`] for layers and applies them to [`DTensor`]s. The same function
//! builds the serial model on a grid of one rank and the parallel one on any other; where a layer reads another layout
//! than the one before emits, the library inserts the collective and notes it in the context's report.
//!
//! Read in this order: `builder`, `layers`, `model`.

#![forbid(unsafe_code)]

mod builder;
mod layers;
mod model;

pub use builder::{Builder, LinearOptions};
pub use layers::{Embedding, Linear, Norm};
pub use model::{Assembled, auto_parallelize};
pub use parallel::{DTensor, layers::LinearKind};
