//! Groups of ranks: [`communicator`] (one rank's end), [`hub`] (where live ranks of a group exchange times),
//! [`meeting`] (work whose time depends on other ranks), [`registry`] (how ranks find the hub).

mod communicator;
mod hub;
mod meeting;
mod registry;

pub(crate) use meeting::Meeting;
pub(crate) use registry::{create, join};
