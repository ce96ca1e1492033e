//! Pipelining: schedules as data, and the engine that runs them.
//!
//! [`schedule`] makes and checks lists of actions. [`Pipeline`] is a model on its stages. `part` runs the
//! segments of one part, and `channel` moves wires between parts on `streams`. `stage` does both for a batch, in the order
//! that `engine` reads from a list, or that `driven` derives from the messages that arrive. `round` runs the micro-batches
//! between two updates on one of the `versions` of the weights. `saver` moves what segments have saved.

mod channel;
mod driven;
mod engine;
mod part;
#[allow(
    clippy::module_inception,
    reason = "the type that the module is named for"
)]
mod pipeline;
mod plan;
mod round;
mod saver;
pub mod schedule;
mod stage;
mod streams;
mod versions;

pub(crate) use part::Program;
pub use pipeline::{Built, Options, Pipeline};
pub use plan::SchedulePlan;
pub use schedule::ScheduleKind;
