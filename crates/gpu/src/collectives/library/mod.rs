//! Collectives by NCCL or RCCL, on the caller's stream.
//!
//! [`session`] owns a communicator and polls it; [`calls`] says what each collective is in the library's terms; [`flight`]
//! remembers what is queued, so that a host that waits too long can say for what.

mod calls;
mod flight;
mod session;

use crate::{
    context::Context,
    stream::{Core, GpuStream},
    table::Address,
    wait::Watch,
};
use flight::Flight;
use hal::{Collective, Communicator, Error, Join, Result, Stream};
use rccl_sys::{Nccl, UniqueId};
use session::Session;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// What all ranks of a new group must have.
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
/// [`Error::Timeout`] when others do not come; [`Error::Aborted`]; [`Error::Vendor`].
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
    let token = Token::new(context)?;
    let shared = Arc::new(Shared {
        flight: Flight::default(),
        session,
        token,
    });
    let watch: Weak<Shared> = Arc::downgrade(&shared);
    context.add_watch(watch);
    Ok(Box::new(LibraryCommunicator { shared }))
}

/// One rank's end of a group of the library's.
struct LibraryCommunicator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Dropped first: waits for what is queued before the communicator ends.
    flight: Flight,
    session: Session,
    token: Token,
}

/// A number on the device, which barriers reduce.
#[derive(Debug)]
struct Token {
    context: Arc<Context>,
    address: Address,
}

impl Token {
    fn new(context: &Arc<Context>) -> Result<Token> {
        Ok(Token {
            context: context.clone(),
            address: context.allocate(size_of::<f32>())?,
        })
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: the memory came from `allocate`, and the communicator, which alone uses it, has ended.
        self.context
            .release(|runtime| unsafe { runtime.free(self.address) });
    }
}

impl Shared {
    // Safety: as for `Communicator::run`.
    unsafe fn run(&self, core: &Core, collectives: &[Collective]) -> Result<()> {
        let call = calls::LibraryCall {
            session: &self.session,
            token: self.token.address,
            stream: core.handle(),
        };
        // SAFETY: the caller vouches for the buffers.
        unsafe { call.run(collectives) }?;
        self.flight
            .depart(&self.session.context, core.handle(), collectives)
    }
}

impl Watch for Shared {
    fn check(&self, waited: Duration) -> Result<()> {
        // What fails here ends with all other communicators, by `Context::fail`.
        let join = &self.session.join;
        join.abort.check()?;
        self.session.check_async()?;
        // The others hear of it before the communicators end, which they would take for the failure.
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
        // A peer that has gone would keep this rank here, so the wait is watched like any other.
        if let Err(error) = context.check().and_then(|()| self.land()) {
            context.fail(error);
            self.session.abort();
        }
    }
}

// SAFETY: rank and size are those that the library was given; it touches only the buffers that it is called with.
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
        // SAFETY: the caller vouches for the buffers. With the library's collectives no stream has a thread.
        unsafe { self.shared.run(stream.core(), collectives) }
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
