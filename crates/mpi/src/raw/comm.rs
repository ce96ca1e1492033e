//! Communicators: their ranks, and messages that are sent and received.

use super::request::{Request, null, received};
use super::{Result, checked};
use mpi::ffi::*;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// A communicator. Several threads may use it at once: MPI was started for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comm(pub(super) MPI_Comm);

// SAFETY: a handle; the library was started with MPI_THREAD_MULTIPLE, which makes calls on it from any thread legal.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

impl Comm {
    /// The communicator of all processes, with errors returned to the caller.
    pub(crate) fn world() -> Result<Comm> {
        // SAFETY: a constant of the library, read after it was started.
        Comm(unsafe { RSMPI_COMM_WORLD }).returning_errors()
    }

    pub(super) fn returning_errors(self) -> Result<Comm> {
        // SAFETY: the communicator is live.
        let code = unsafe { MPI_Comm_set_errhandler(self.0, RSMPI_ERRORS_RETURN) };
        checked("MPI_Comm_set_errhandler", code).map(|()| self)
    }

    pub(crate) fn rank(self) -> Result<usize> {
        let mut rank = 0;
        // SAFETY: the communicator is live.
        checked("MPI_Comm_rank", unsafe { MPI_Comm_rank(self.0, &mut rank) })?;
        Ok(rank as usize)
    }

    pub(crate) fn size(self) -> Result<usize> {
        let mut size = 0;
        // SAFETY: the communicator is live.
        checked("MPI_Comm_size", unsafe { MPI_Comm_size(self.0, &mut size) })?;
        Ok(size as usize)
    }

    /// A communicator of the same ranks with separate messages. All ranks call it.
    pub(crate) fn duplicate(self) -> Result<Comm> {
        let mut copy = self;
        // SAFETY: the communicator is live.
        checked("MPI_Comm_dup", unsafe { MPI_Comm_dup(self.0, &mut copy.0) })?;
        copy.returning_errors()
    }

    /// The ranks that share memory with this one, in the order of `key`. All ranks call it.
    pub(crate) fn split_shared(self, key: usize) -> Result<Comm> {
        let mut part = self;
        // SAFETY: the communicator is live.
        let code = unsafe {
            MPI_Comm_split_type(
                self.0,
                RSMPI_COMM_TYPE_SHARED,
                key as c_int,
                RSMPI_INFO_NULL,
                &mut part.0,
            )
        };
        checked("MPI_Comm_split_type", code)?;
        part.returning_errors()
    }

    // Its ranks, which the caller frees.
    pub(super) fn group(self) -> Result<MPI_Group> {
        let mut group = MaybeUninit::uninit();
        // SAFETY: the communicator is live; MPI writes the handle when it succeeds.
        checked("MPI_Comm_group", unsafe {
            MPI_Comm_group(self.0, group.as_mut_ptr())
        })?;
        // SAFETY: written by the call above, which succeeded.
        Ok(unsafe { group.assume_init() })
    }

    /// The rank in `all` of the first rank of this communicator.
    pub(crate) fn leader_in(self, all: Comm) -> Result<usize> {
        let (mut mine, mut others) = (self.group()?, all.group()?);
        let (first, mut leader) = (0, 0);
        // SAFETY: both groups are live, and one rank is translated.
        let code = unsafe { MPI_Group_translate_ranks(mine, 1, &first, others, &mut leader) };
        // SAFETY: both groups are live and not used again.
        unsafe { (MPI_Group_free(&mut mine), MPI_Group_free(&mut others)) };
        checked("MPI_Group_translate_ranks", code).map(|()| leader as usize)
    }

    /// A communicator of some ranks, in this order. Only those ranks call it, all with the same tag.
    pub(crate) fn create_group(self, members: &[usize], tag: c_int) -> Result<Comm> {
        let ranks: Vec<c_int> = members.iter().map(|&rank| rank as c_int).collect();
        let (mut all, mut some) = (self.group()?, MaybeUninit::uninit());
        // SAFETY: the group is live, and the array holds as many ranks as stated.
        let code =
            unsafe { MPI_Group_incl(all, ranks.len() as c_int, ranks.as_ptr(), some.as_mut_ptr()) };
        checked("MPI_Group_incl", code)?;
        // SAFETY: written by the call above, which succeeded.
        let (mut some, mut part) = (unsafe { some.assume_init() }, self);
        // SAFETY: communicator and group are live.
        let code = unsafe { MPI_Comm_create_group(self.0, some, tag, &mut part.0) };
        // SAFETY: both groups are live and not used again.
        unsafe { (MPI_Group_free(&mut some), MPI_Group_free(&mut all)) };
        checked("MPI_Comm_create_group", code)?;
        part.returning_errors()
    }

    /// The largest tag that messages may use.
    pub(crate) fn largest_tag(self) -> c_int {
        let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
        // SAFETY: the communicator is live; MPI writes a pointer to an int that it owns.
        let code = unsafe {
            MPI_Comm_get_attr(
                self.0,
                MPI_TAG_UB as c_int,
                (&raw mut value).cast::<c_void>(),
                &mut found,
            )
        };
        // The standard guarantees at least this value.
        const LEAST: c_int = 32_767;
        if code != MPI_SUCCESS as c_int || found == 0 || value.is_null() {
            return LEAST;
        }
        // SAFETY: not null and found, so it points to the library's int.
        unsafe { *value }
    }

    /// # Safety
    /// The bytes stay live and unwritten until the request has completed, or no more data is moved.
    pub(crate) unsafe fn send(
        self,
        bytes: *const u8,
        len: usize,
        to: usize,
        tag: c_int,
    ) -> Result<Request> {
        let mut request = null();
        // SAFETY: the communicator is live; the caller guarantees the bytes.
        let code = unsafe {
            MPI_Isend(
                bytes.cast(),
                count(len),
                RSMPI_UINT8_T,
                to as c_int,
                tag,
                self.0,
                &mut request,
            )
        };
        checked("MPI_Isend", code).map(|()| Request(request))
    }

    /// # Safety
    /// The bytes stay live and nobody else uses them until the request has completed, or no more data is moved.
    pub(crate) unsafe fn recv(
        self,
        bytes: *mut u8,
        len: usize,
        from: usize,
        tag: c_int,
    ) -> Result<Request> {
        let mut request = null();
        // SAFETY: the communicator is live; the caller guarantees the bytes.
        let code = unsafe {
            MPI_Irecv(
                bytes.cast(),
                count(len),
                RSMPI_UINT8_T,
                from as c_int,
                tag,
                self.0,
                &mut request,
            )
        };
        checked("MPI_Irecv", code).map(|()| Request(request))
    }

    /// A message that has arrived without a posted receive: its sender, and its bytes, which are still in
    /// flight.
    pub(crate) fn arrived(self) -> Result<Option<(usize, Vec<u8>, Request)>> {
        let (mut found, mut message) = (0, MaybeUninit::uninit());
        let mut status = MaybeUninit::<MPI_Status>::uninit();
        // SAFETY: the communicator is live; MPI writes message and status when it finds one.
        let code = unsafe {
            MPI_Improbe(
                RSMPI_ANY_SOURCE,
                RSMPI_ANY_TAG,
                self.0,
                &mut found,
                message.as_mut_ptr(),
                status.as_mut_ptr(),
            )
        };
        checked("MPI_Improbe", code)?;
        if found == 0 {
            return Ok(None);
        }
        // SAFETY: found, so both were written.
        let (mut message, status) = unsafe { (message.assume_init(), status.assume_init()) };
        let mut bytes = vec![0; received(&status)];
        let mut request = null();
        // SAFETY: the heap memory of the bytes does not move while the vector moves with its request.
        let code = unsafe {
            MPI_Imrecv(
                bytes.as_mut_ptr().cast(),
                count(bytes.len()),
                RSMPI_UINT8_T,
                &mut message,
                &mut request,
            )
        };
        checked("MPI_Imrecv", code)?;
        Ok(Some((status.MPI_SOURCE as usize, bytes, Request(request))))
    }
}

// Messages are split to fit long before this, in `group::wire` and `post`.
fn count(len: usize) -> c_int {
    c_int::try_from(len).expect("a bug: a message of 2 GiB or more was not cut")
}
