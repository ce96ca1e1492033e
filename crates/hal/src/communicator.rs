//! A rank's end of a process group.

use crate::{AbortSignal, Collective, Result, Stream};
use std::{fmt, sync::Arc, time::Duration};

/// The name of a process group, created by one rank and known to all its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub Vec<u8>);

/// What a rank needs to join a process group.
#[derive(Clone, Debug)]
pub struct Join {
    /// The group's id, from [`Device::create_group`](crate::Device::create_group) of its rank 0.
    pub id: GroupId,
    /// The group's label in messages: `axis Y`.
    pub label: String,
    /// This rank's index within the group.
    pub rank: usize,
    /// World ranks of the members, in the order of their index.
    pub members: Vec<usize>,
    /// How long a rank waits for the others before it reports the missing ranks.
    pub timeout: Duration,
    /// Ends every wait early.
    pub abort: Arc<AbortSignal>,
}

/// One rank's end of a process group.
///
/// That all ranks make the same calls in the same order is not a safety clause, because no caller can prove it.
/// A vendor whose ranks touch each other's memory compares the calls itself; for the others there is the
/// shell's checked mode.
///
/// # Safety
/// `rank` and `size` are true. Only memory named by the arguments of this group's calls is read or written, by
/// this rank's stream or by a peer, and never after the call's place in the stream has passed.
pub unsafe trait Communicator: Send + fmt::Debug {
    /// This rank's index within the group.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn size(&self) -> usize;

    /// Queues collectives that progress together: none of them waits for another of the same call.
    ///
    /// # Safety
    /// The buffers are live until the work has run, are on the stream's device, have the lengths that the
    /// operation requires, and are not used by other work meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a stream of another vendor, and for ranks or counts that do not
    /// fit the group; [`Error::Mismatch`](crate::Error::Mismatch), [`Error::Timeout`](crate::Error::Timeout),
    /// [`Error::Aborted`](crate::Error::Aborted) and [`Error::Vendor`](crate::Error::Vendor), here or from the
    /// stream's events when the work runs later.
    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()>;

    /// Makes the connections for messages. Otherwise the first message between two ranks makes them, and with NCCL and RCCL
    /// each host then waits until the other has called too. All ranks call this, before any message.
    ///
    /// # Errors
    /// As [`run`](Communicator::run).
    fn connect(&self) -> Result<()> {
        Ok(())
    }
}
