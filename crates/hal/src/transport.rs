//! How devices whose memory is host memory reach ranks of other processes.
//!
//! A device with its own network (NCCL, RCCL) does not need this. The CPU's ranks use shared memory while they
//! are threads of one process. When they are processes, a transport provided by the launcher carries their
//! collectives.

use crate::{Collective, GroupId, Join, Result};
use std::fmt;

/// Collectives with an assigned place in their group's order, ready to run on the thread of their stream.
///
/// The argument reports whether the rank can wait no longer because its own thread is unwinding from a panic.
pub type Work = Box<dyn FnOnce(&dyn Fn() -> bool) -> Result<()> + Send>;

/// Creates process groups between the host memories of ranks that are processes.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Creates the id of a new process group; one rank calls it and sends the id to the others.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_group(&self) -> Result<GroupId>;

    /// Joins a process group. Collective: returns once every rank of the group has joined.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the caller is not the member that `join` says;
    /// [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not arrive;
    /// [`Error::Aborted`](crate::Error::Aborted); [`Error::Vendor`](crate::Error::Vendor) from the network.
    fn join(&self, join: &Join) -> Result<Box<dyn Transfer>>;
}

/// One rank's end of a group of a [`Transport`].
///
/// # Safety
/// The work reads and writes only host memory named by the arguments of this group's calls, and none of it once
/// it has returned.
pub unsafe trait Transfer: Send + Sync + fmt::Debug {
    /// Assigns collectives their place in the group's order. They progress together when the work runs. Work
    /// prepared first need not run first.
    ///
    /// # Safety
    /// Until the work has run or is dropped, the buffers are live host memory with the lengths that the
    /// operations require, and nothing else uses them.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for ranks that the group does not have.
    unsafe fn prepare(&self, collectives: &[Collective]) -> Result<Work>;
}
