//! Which grid, how fast, and does it fit: answered before anyone queues for the devices.
//!
//! The planner predicts with the program that will run: a candidate is a whole configuration, and [`simulate()`] runs its
//! training step on the simulated vendor. Read in this order: [`model`] (names of models), [`request`] (what is asked),
//! [`candidate`] (one way to run it), [`enumerate`] (all of them), [`estimate`] (what each costs at least, in closed
//! form), `shortlist` (those worth simulating), [`simulate`](mod@simulate) (what each costs), [`search`](mod@search) (the
//! best of them), `reach` (why there are none), [`report`] (told to
//! people and programs), [`picture`] (a step's trace, and a measured one beside it).

#![forbid(unsafe_code)]

pub mod candidate;
pub mod enumerate;
pub mod error;
pub mod estimate;
pub mod model;
pub mod picture;
mod reach;
pub mod report;
pub mod request;
pub mod search;
mod shortlist;
pub mod simulate;
mod threads;

pub use candidate::Candidate;
pub use error::{Error, Result};
pub use request::{Preset, Request};
pub use search::{Plan, plan, search};
pub use simulate::{Outcome, simulate};
