//! Pipelining: schedules as data, and the engine that runs them.
//!
//! [`schedule`] makes and checks lists of actions; `engine` carries a list out on one stage; `driven` lets messages
//! decide instead of a list; `forward` runs a model without a backward pass; `stage` holds what both do: passes, and messages between stages.

mod driven;
mod engine;
mod forward;
pub mod schedule;
mod stage;

pub use engine::{Plan, run};
pub use forward::forward;
pub use schedule::ScheduleKind;
pub use stage::{Activation, Output, Stages};
