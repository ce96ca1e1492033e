//! Groups of ranks: [`communicator`] (one rank's end), [`hub`] (where live ranks of a group leave times for each other),
//! [`meeting`] (work whose time depends on them), [`registry`] (how they find the hub).

mod communicator;
mod hub;
mod meeting;
mod registry;

pub(crate) use meeting::Meeting;
pub(crate) use registry::{create, join};
