//! How devices whose memory is the host's reach ranks of other processes.
//!
//! A device with a network of its own (NCCL, RCCL) needs none of this. The CPU's ranks reach each other through shared
//! memory while they are threads of one process; once they are processes, a transport that the launcher brings carries
//! their collectives.

use crate::{Collective, GroupId, Join, Result};
use std::fmt;

/// Collectives that have taken their place in their group's order, ready to run on whichever thread their stream has.
///
/// The argument says whether the rank can wait no longer because its own thread unwinds from a panic.
pub type Work = Box<dyn FnOnce(&dyn Fn() -> bool) -> Result<()> + Send>;

/// Makes process groups between the hosts' memories of ranks that are processes.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Makes the id of a new process group; one rank calls it and sends the id to the others.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor).
    fn create_group(&self) -> Result<GroupId>;

    /// Joins a process group. Collective: returns once every rank of the group has joined.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout) naming the ranks that did not come; [`Error::Aborted`](crate::Error::Aborted).
    fn join(&self, join: &Join) -> Result<Box<dyn Transfer>>;
}

/// One rank's end of a group of a [`Transport`].
///
/// # Safety
/// The work reads and writes only host memory that the arguments of this group's calls name, and none of it once it has
/// returned.
pub unsafe trait Transfer: Send + Sync + fmt::Debug {
    /// Gives collectives their place in the group's order. They progress together once the work is run; what was
    /// prepared first need not run first.
    ///
    /// # Safety
    /// Until the work has run or is dropped, the buffers are live host memory of the lengths that the operations ask
    /// for, and nothing else uses them.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for ranks that the group does not have.
    unsafe fn prepare(&self, collectives: &[Collective]) -> Result<Work>;
}
