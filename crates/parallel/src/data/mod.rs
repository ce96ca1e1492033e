//! Data parallelism: all parameters of a rank in flat buffers, with gradients reduced in buckets during the
//! backward pass.
//!
//! `bucket` is one flat buffer of values, gradients and optimiser state, with its reduction; `classes` says which parameters
//! share one, and `quantised` buckets hold codes of weights. [`ParameterSet`] holds all buckets of a rank, `checks` what it refuses, and `progress` decides when a bucket is final. `step` is a training step on
//! the set, from the first pass to the update, in which no call can be forgotten or reordered. `norm` computes the global
//! norm. `open` holds the gradients of micro-batches until `shards` sums them into shards. `coded` updates parameters whose
//! state is kept as 8-bit codes, in `blocks` with a scale each. `factored`
//! updates those whose second moments are means of rows and columns, whose numbers `lines` holds. `transform` brings matrices together at their `owners`, for
//! optimisers that need them whole. `addends` holds a step's gradients as nodes of reproducible sums, which `reduction` sums
//! over ranks. `placement` says where the optimiser's state is; what is beyond the device is `placed` in
//! `pieces`, over which `stream` walks to update them; what the host's processors update in their own memory is `hosted`, and
//! `host_update` has their buffers. A `flat` buffer of weights or gradients may be one of the `pages` that are on
//! the device only while a layer uses them. `access` reads and writes single parameters, for initial values and checkpoints.

mod access;
mod addends;
mod blocks;
mod bucket;
mod checks;
mod classes;
mod coded;
mod factored;
mod flat;
mod host_update;
mod hosted;
mod lines;
mod norm;
mod open;
mod owners;
mod pages;
mod pieces;
mod placed;
mod placement;
mod progress;
mod quantised;
mod reduction;
mod room;
mod set;
mod sharding;
mod shards;
mod state;
mod step;
mod stream;
mod transform;
mod update;
mod update_place;

pub use access::Part;
pub use bucket::VersionGradients;
pub use factored::Factoring;
pub(crate) use flat::Flat;
pub use placement::{StatePlacement, StatePlaces};
pub use set::{ParameterSet, SetOptions, Tied};
pub use sharding::Sharding;
pub use step::{Evaluation, Gradients, TrainingStep};
pub use update::UpdateRule;
pub use update_place::UpdatePlace;
