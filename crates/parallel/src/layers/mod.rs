//! The layers' parallel operations: 3D tensor parallelism.
//!
//! Activations are [`DTensor`]s: sequences cut over Data and Z, and features cut over Y, over X or not at all.
//! A **normal** layer reads features cut by Y and emits features cut by X; a **transposed** layer reads X and
//! emits Y, so that alternating layers need no redistribution. Weights are cut over both axes, and their rows
//! once more over Z.
//!
//! Read in this order: `dtensor`, `linear`, `weight`, `magnitude` (lengths of a weight's columns that are trained by themselves), `gather`
//! and `scatter` (weights over Z, with OAG and ORS), `norm`, `head_norm`, `embedding`, `attention`, `places`, `loss`,
//! `preference`, `dropout`, `redistribute`, `spread`, `recompute`; then the operations from which model authors write layers:
//! `elementwise`, `features`, `rows`, `dims`, `choose`, `matmul`.

pub mod attention;
mod choose;
mod dims;
mod dropout;
mod dtensor;
mod elementwise;
pub mod embedding;
mod features;
pub(crate) mod gather;
mod head_norm;
pub mod linear;
pub mod loss;
mod magnitude;
mod matmul;
pub mod norm;
mod places;
mod preference;
pub mod recompute;
mod redistribute;
mod rows;
pub(crate) mod scatter;
pub(crate) mod spread;
mod weight;

pub use attention::{AttentionOptions, attention, rope};
pub use dtensor::DTensor;
pub use embedding::embedding;
pub use head_norm::head_norm;
pub use linear::{Linear, LinearKind, Storage, linear, linear_gelu, linear_onto, linear_seeing};
pub use loss::{Loss, cross_entropy, whole_logits};
pub use magnitude::{LowRank, scale_columns};
pub use norm::norm;
pub use places::{document_starts, newest, places, places_in_documents};
pub use preference::{PairColumns, preference_loss};
pub use recompute::recompute;
pub use weight::Weight;
