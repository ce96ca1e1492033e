//! The simulated vendor: buffers without memory, streams with a virtual clock, costs from a machine
//! description.
//!
//! The planner runs on it; no other program has to name it. Begin with the crate `fascicle`, its feature `plan`, and [The
//! planner](https://github.com/fascicle-rs/fascicle/blob/main/docs/planner.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! A program on this vendor does everything it does on another vendor, but computes no numbers. An allocation
//! counts bytes. A launch advances its stream's clock by the cost of the work on the described machine. An
//! event is a time. A collective takes as long as that machine's links need for that group. So the program
//! itself predicts its duration.
//!
//! # How time passes
//! - The host's clock advances with each launch. Work starts when its stream is free and the host has launched
//!   it.
//! - Ranks that are not live (see [`Options::live`]) behave at every moment like their live stand-in, so a
//!   collective with them completes alone. Live ranks are threads, and messages and collectives between them
//!   carry times: the receiver learns when the sender was ready. Only the consumer of an unknown time waits for
//!   it, which is the first work behind the receive. All times are then the same whatever the threads' real
//!   speed.
//! - Links are shared by intervals, in the order of issue. A transfer progresses while no transfer issued
//!   before it occupies its links, and fills the gaps that earlier transfers leave. Compute that overlaps a
//!   transfer slows down.
//!
//! Read in this order: `timeline` and `links` (sharing), `point` and `pending` (times, and what they wait for),
//! `state` (a device's clocks), `stream`, `kernels`, `group` (collectives and messages), `recorder` (results).

mod breakdown;
pub mod cost;
mod device;
mod event;
mod group;
mod kernels;
mod links;
mod memory;
mod pending;
mod point;
mod recorder;
mod state;
mod stream;
mod timeline;
mod work;

pub use breakdown::{Breakdown, GroupTime};
pub use device::{Options, open, open_recorded};
pub use recorder::Recorder;
pub use work::{Category, Gap, Reason, Work};
