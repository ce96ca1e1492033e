//! Finds the grid for a model, its speed and whether it fits, before anyone queues for the devices.
//!
//! This crate is for programs that plan a model of their own; the command `fascicle plan` plans those of configurations. The
//! crate `fascicle` re-exports it as `fascicle::plan`, with the feature `plan`. Begin with [The
//! planner](https://github.com/fascicle-rs/fascicle/blob/main/docs/planner.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! The planner predicts with the program that will run: a candidate is a complete configuration, and
//! [`simulate()`] runs its training step on the simulated vendor. Read in this order: [`model`] (names of
//! models), [`request`] (the question), [`candidate`] (one way to run the model), [`enumerate`] (all
//! candidates), [`estimate`] (a lower bound on the cost of each, in closed form), `shortlist` (the candidates
//! worth simulating), [`simulate`](mod@simulate) (the simulated cost of each; `periods` shortens long steps), [`search`](mod@search) (the best
//! of them), `reach` (why there are none), [`report`] (the plan for people and programs), [`kernels`] (the work
//! of a step by kernel), [`picture`] (the trace of a step, and its comparison with a measured one).
//!
//! The best grid for a model of a known name:
//!
//! ```no_run
//! use fascicle_plan::{model, plan};
//! use grid::machine::Machine;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (_, config) = model::find("gpt-5b", &families::families())?;
//! let plan = plan(config.model, &Machine::find("frontier")?, 64)?;
//! println!("{}", plan.best[0].candidate.degrees);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod candidate;
pub mod enumerate;
pub mod error;
pub mod estimate;
pub mod kernels;
pub mod memory;
pub mod model;
mod periods;
pub mod picture;
mod reach;
pub mod report;
pub mod request;
pub mod search;
mod shortlist;
pub mod simulate;
mod threads;

pub use candidate::{Candidate, SegmentChoices, StatePlaceKinds};
pub use error::{Error, Result, TraceError};
pub use request::{Preset, Request};
pub use search::{Plan, plan, search};
pub use simulate::{Outcome, simulate};
