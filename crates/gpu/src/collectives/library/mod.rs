//! Collectives by NCCL or RCCL, on the caller's stream.
//!
//! [`session`] owns a communicator and polls it. [`calls`] expresses each collective in the library's calls. [`flight`]
//! records the queued calls, so that a timeout can name the call that the host waits for.
//!
//! The memory of a collective that failed stays allocated: the shell keeps a block whose last use has no recorded end.
//! That is necessary. `ncclCommAbort` ends this rank's kernels, but peers may still read and write the memory directly,
//! and the library does not report when they have stopped.

mod calls;
mod flight;
mod session;

use crate::{
    context::Context,
    stream::{GpuStream, OwnedStream},
    table::{Address, Handle},
    wait::Watch,
};
use flight::Flight;
use hal::{Collective, Communicator, DType, Error, Join, RawSlice, Result, Stream};
use rccl_sys::{Nccl, UniqueId};
use session::Session;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// Makes the id that all ranks of a new group need.
///
/// # Errors
/// [`Error::Invalid`] without the library; [`Error::Vendor`].
pub(super) fn create_id(context: &Context) -> Result<Vec<u8>> {
    let nccl = table(context)?;
    let mut id = UniqueId { internal: [0; 128] };
    // SAFETY: the pointer is that of a live variable.
    let status = unsafe { (nccl.ncclGetUniqueId)(&mut id) };
    session::check(context, nccl, "ncclGetUniqueId", status)?;
    Ok(id
        .internal
        .iter()
        .map(|byte| byte.cast_unsigned())
        .collect())
}

fn table(context: &Context) -> Result<&Nccl> {
    match &context.tables.collectives {
        Ok((_, table)) => Ok(table),
        Err(missing) => {
            let needed = "the library, or `device.collectives` = staged for ranks of one process";
            Err(Error::invalid("collectives", missing.to_string(), needed))
        }
    }
}

/// Joins a group.
///
/// # Errors
/// [`Error::Invalid`] without the library, and for an id of another length; [`Error::Timeout`] when other ranks do not
/// join; [`Error::Aborted`]; [`Error::Vendor`].
pub(super) fn join(context: &Arc<Context>, id: &[u8], join: Join) -> Result<Box<dyn Communicator>> {
    let bytes: &[u8; 128] = id.try_into().map_err(|_| {
        Error::invalid(
            "join",
            format!("an id of {} bytes", id.len()),
            "one of 128 bytes",
        )
    })?;
    let id = UniqueId {
        internal: bytes.map(|byte| byte.cast_signed()),
    };
    let session = Session::open(context, *table(context)?, id, join)?;
    let token = Token::new(context, session.join.members.len())?;
    let shared = Arc::new(Shared {
        flight: Flight::default(),
        session,
        token,
    });
    let watch: Weak<Shared> = Arc::downgrade(&shared);
    context.add_watch(watch);
    Ok(Box::new(LibraryCommunicator { shared }))
}

/// One rank's end of a group that the library serves.
struct LibraryCommunicator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Dropped first: it waits for queued calls before the communicator ends.
    flight: Flight,
    session: Session,
    token: Token,
}

/// Numbers in device memory that barriers reduce, and that ranks send each other to connect: two for each rank.
#[derive(Debug)]
struct Token {
    context: Arc<Context>,
    address: Address,
}

impl Token {
    fn new(context: &Arc<Context>, size: usize) -> Result<Token> {
        Ok(Token {
            context: context.clone(),
            address: context.allocate(2 * size * size_of::<f32>())?,
        })
    }

    // What a rank sends to all others, and what it receives from them.
    fn messages(&self, size: usize) -> Collective {
        let all = RawSlice {
            addr: self.address,
            len: 2 * size,
            dtype: DType::F32,
        };
        Collective::AllToAll {
            send: all.part(0, size),
            recv: all.part(size, size),
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: the memory came from `allocate`, and the communicator, which alone uses it, has ended.
        unsafe { self.context.free(self.address) };
    }
}

impl Shared {
    // Safety: as for `Communicator::run`; the stream is live.
    unsafe fn run(&self, stream: Handle, collectives: &[Collective]) -> Result<()> {
        let call = calls::LibraryCall {
            session: &self.session,
            token: self.token.address,
            stream,
        };
        // SAFETY: the caller vouches for the buffers.
        unsafe { call.run(collectives) }?;
        self.flight
            .depart(&self.session.context, stream, collectives)
    }

    fn connect(&self) -> Result<()> {
        let stream = OwnedStream::new(&self.session.context, false)?;
        let messages = self.token.messages(self.session.join.members.len());
        // SAFETY: the token is live as long as `self`, and only barriers use it otherwise; the stream lives until the
        // messages have arrived.
        unsafe { self.run(stream.handle(), &[messages]) }?;
        self.flight.land(|waited| self.check(waited))
    }
}

impl Watch for Shared {
    fn check(&self, waited: Duration) -> Result<()> {
        // A failure here ends all other communicators too, through `Context::fail`.
        let join = &self.session.join;
        join.abort.check()?;
        self.session.check_async()?;
        // Raised before the communicators end; otherwise the other ranks would report that end as the failure.
        let told = |error: &Error| join.abort.raise(join.members[join.rank], error.to_string());
        self.flight.check(waited, join).inspect_err(told)
    }

    fn land(&self) -> Result<()> {
        self.flight.land(|waited| self.check(waited))
    }

    fn end(&self) {
        self.session.abort();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let context = &self.session.context;
        // A peer that is gone would block this rank here, so this wait is watched like any other.
        if let Err(error) = context.check().and_then(|()| self.land()) {
            context.fail(error);
            self.session.abort();
        }
    }
}

// SAFETY: rank and size are those that the library was given; it accesses only the buffers of each call.
unsafe impl Communicator for LibraryCommunicator {
    fn rank(&self) -> usize {
        self.shared.session.join.rank
    }

    fn size(&self) -> usize {
        self.shared.session.join.members.len()
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let stream = GpuStream::of(stream, self.shared.session.context.id)?;
        stream.core().context.check()?;
        // SAFETY: the caller vouches for the buffers. No stream has a thread when the library runs the collectives.
        unsafe { self.shared.run(stream.core().handle(), collectives) }
    }

    fn connect(&self) -> Result<()> {
        self.shared.connect()
    }
}

impl fmt::Debug for LibraryCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = &self.shared.session.join;
        write!(
            f,
            "LibraryCommunicator({}, {} of {})",
            join.label,
            join.rank,
            join.members.len()
        )
    }
}
