//! Groups of ranks that are processes: the transport moves the bytes, and this vendor's streams decide when.

use crate::stream::{HostStream, cancelled};
use hal::{Collective, Communicator, Join, Result, Stream, Transfer, Transport};

/// Joins a group over a transport; returns once all its ranks have.
///
/// # Errors
/// Those of [`Transport::join`].
pub(crate) fn join_over(transport: &dyn Transport, join: Join) -> Result<Box<dyn Communicator>> {
    let transfer = transport.join(&join)?;
    Ok(Box::new(Transported {
        rank: join.rank,
        size: join.members.len(),
        transfer,
    }))
}

/// One rank's end of such a group.
#[derive(Debug)]
struct Transported {
    rank: usize,
    size: usize,
    transfer: Box<dyn Transfer>,
}

// SAFETY: rank and size are those with which the group was joined; the transfer touches only the memory of its
// calls, while their work runs at its place in the stream.
unsafe impl Communicator for Transported {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let stream = HostStream::of(stream)?;
        // SAFETY: the caller guarantees the buffers until the work has run on the stream, which drops it otherwise.
        let work = unsafe { self.transfer.prepare(collectives) }?;
        stream.submit(move || work(&cancelled))
    }
}
