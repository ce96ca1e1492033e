//! Layers, and the builder that declares them.
//!
//! This crate is for authors of models. The crate `fascicle` re-exports it as `fascicle::nn`, with what most models need in its
//! prelude. Begin with [Your first model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A model is ordinary code: it requests layers from a [`Builder`] and applies them to [`DTensor`]s. The same
//! function builds the serial model on a grid of one rank and the parallel model on any other grid. Where a
//! layer reads a layout other than the one emitted before it, the library inserts the collective and records it
//! in the context's report.
//!
//! Read in this order: `builder`, `layers`, `tuning` (what is frozen, and what has adapters), `model`.
//!
//! A block whose layers a grid may cut:
//!
//! ```
//! use fascicle_nn::{Builder, DTensor, Linear};
//! use tensor::Result;
//!
//! struct Mlp {
//!     up: Linear,
//!     down: Linear,
//! }
//!
//! impl Mlp {
//!     fn new(builder: &Builder) -> Result<Mlp> {
//!         Ok(Mlp { up: builder.linear("up", 64, 256)?, down: builder.linear_transposed("down", 256, 64)? })
//!     }
//!     // The sums that a grid needs are part of the layers.
//!     fn forward(&self, x: &DTensor) -> Result<DTensor> {
//!         self.down.forward(&self.up.forward_gelu(x)?)
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod builder;
mod layers;
mod model;
mod tuning;

pub use builder::{Builder, LinearOptions};
pub use layers::{Embedding, HeadNorm, Linear, Norm};
pub use model::{Assembled, auto_parallelize};
pub use parallel::{DTensor, layers::LinearKind};
pub use tuning::{ADAPTER_LAYERS, ADAPTER_MAGNITUDE, Adapters, Pattern, Tuning, is_of_adapter};
