//! Layers, and the builder that declares them.
//!
//! A model is ordinary code: it requests layers from a [`Builder`] and applies them to [`DTensor`]s. The same
//! function builds the serial model on a grid of one rank and the parallel model on any other grid. Where a
//! layer reads a layout other than the one emitted before it, the library inserts the collective and records it
//! in the context's report.
//!
//! Read in this order: `builder`, `layers`, `tuning` (what is frozen, and what has adapters), `model`.

#![forbid(unsafe_code)]

mod builder;
mod layers;
mod model;
mod tuning;

pub use builder::{Builder, LinearOptions};
pub use layers::{Embedding, Linear, Norm};
pub use model::{Assembled, auto_parallelize};
pub use parallel::{DTensor, layers::LinearKind};
pub use tuning::{ADAPTER_LAYERS, Adapters, Pattern, Tuning, is_of_adapter};
