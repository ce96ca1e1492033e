//! A server over a [`Generator`](train::generate::Generator): the interface of OpenAI over HTTP, on any grid of ranks.
//!
//! The command `fascicle serve` is its user, in a build of the crate `fascicle` with the feature `serve`. Begin with
//! [Serving](https://github.com/fascicle-rs/fascicle/blob/main/docs/serving.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! The first rank has the [`Front`], whose thread speaks HTTP. [`run`] is the loop of all ranks: before each step the first rank
//! relays which requests came and which clients left, so every rank makes the same calls of its generator.
//!
//! Read in this order: `served` (the model, and limits), `protocol` (what clients ask for and get), `engine` (requests to
//! steps, tokens to clients), `http` (connections, routes, streams), `metrics`.

#![forbid(unsafe_code)]

mod engine;
mod http;
mod metrics;
mod protocol;
mod served;

pub use engine::run;
pub use http::{Front, Keys};
pub use served::{Limits, Served};
