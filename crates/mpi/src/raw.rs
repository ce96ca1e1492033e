//! MPI's calls, with results instead of status codes. Callers hold the [`Gate`](crate::gate::Gate) wherever
//! data moves.

use mpi::ffi::*;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// A call that MPI refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) code: c_int,
    pub(crate) reason: String,
}

impl Fault {
    /// Whether a message was longer than its receive buffer.
    pub(crate) fn is_truncation(&self) -> bool {
        let mut class = 0;
        // SAFETY: the call accepts any code.
        unsafe { MPI_Error_class(self.code, &mut class) };
        class == MPI_ERR_TRUNCATE as c_int
    }
}

type Result<T, E = Fault> = std::result::Result<T, E>;

fn checked(call: &'static str, code: c_int) -> Result<()> {
    if code == MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Fault {
            call,
            code,
            reason: words(code),
        })
    }
}

fn words(code: c_int) -> String {
    let mut text = [0; MPI_MAX_ERROR_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: the buffer is longer than MPI's longest text, and stays zero-terminated.
    unsafe { MPI_Error_string(code, text.as_mut_ptr(), &mut len) };
    // SAFETY: zeros follow whatever MPI has written.
    unsafe { CStr::from_ptr(text.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// A description of the library; valid before MPI is started.
pub(crate) fn library() -> String {
    // SAFETY: a constant of the library, read only.
    let room = unsafe { RSMPI_MAX_LIBRARY_VERSION_STRING } as usize;
    let (mut text, mut len) = (vec![0; room + 1], 0);
    // SAFETY: the buffer has the room that MPI states, and stays zero-terminated.
    unsafe { MPI_Get_library_version(text.as_mut_ptr(), &mut len) };
    // SAFETY: zeros follow whatever MPI has written.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }
        .to_string_lossy()
        .into_owned();
    text.lines()
        .next()
        .unwrap_or_default()
        .split(", package")
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Name of the host, as MPI reports it.
pub(crate) fn host() -> String {
    let (mut text, mut len) = ([0; 1025], 0);
    // SAFETY: longer than the longest name of any MPI library (256), and stays zero-terminated.
    unsafe { MPI_Get_processor_name(text.as_mut_ptr(), &mut len) };
    // SAFETY: zeros follow whatever MPI has written.
    unsafe { CStr::from_ptr(text.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// Starts MPI for calls from several threads at once, and returns whether the library allows them.
pub(crate) fn start() -> Result<bool> {
    let mut provided = 0;
    // SAFETY: no arguments are passed, which MPI permits; called once, by `Job::join`.
    let code = unsafe {
        MPI_Init_thread(
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            RSMPI_THREAD_MULTIPLE,
            &mut provided,
        )
    };
    checked("MPI_Init_thread", code)?;
    // SAFETY: a constant of the library, read only.
    Ok(provided >= unsafe { RSMPI_THREAD_MULTIPLE })
}

/// Leaves MPI.
pub(crate) fn finish() -> Result<()> {
    // SAFETY: called once, after every other call.
    checked("MPI_Finalize", unsafe { MPI_Finalize() })
}

/// Time for the library to end the job, before this process ends without it.
const ABORTING: Duration = Duration::from_secs(5);

/// Ends all processes of the job with this exit status.
pub(crate) fn abort(status: c_int) -> ! {
    // The library asks the launcher, and waits without end for one that is cut off.
    let alone = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(ABORTING);
        // SAFETY: ends the process at once; no handler runs that could wait for the library.
        unsafe { libc::_exit(status) }
    });
    drop(alone);
    // SAFETY: MPI has been started.
    unsafe { MPI_Abort(RSMPI_COMM_WORLD, status) };
    std::process::exit(status)
}

/// A communicator. Several threads may use it at once: MPI was started for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comm(MPI_Comm);

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

    fn returning_errors(self) -> Result<Comm> {
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

    /// The rank in `all` of the first rank of this communicator.
    pub(crate) fn leader_in(self, all: Comm) -> Result<usize> {
        let (mut mine, mut others) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the communicator is live; MPI writes the handle when it succeeds.
        checked("MPI_Comm_group", unsafe {
            MPI_Comm_group(self.0, mine.as_mut_ptr())
        })?;
        // SAFETY: as above.
        checked("MPI_Comm_group", unsafe {
            MPI_Comm_group(all.0, others.as_mut_ptr())
        })?;
        // SAFETY: both were written by the calls above, which succeeded.
        let (mut mine, mut others) = unsafe { (mine.assume_init(), others.assume_init()) };
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
        let mut all = MaybeUninit::uninit();
        // SAFETY: the communicator is live; MPI writes the handle when it succeeds.
        checked("MPI_Comm_group", unsafe {
            MPI_Comm_group(self.0, all.as_mut_ptr())
        })?;
        // SAFETY: written by the call above, which succeeded.
        let (mut all, mut some) = (unsafe { all.assume_init() }, MaybeUninit::uninit());
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

fn null() -> MPI_Request {
    // SAFETY: a constant of the library, read only.
    unsafe { RSMPI_REQUEST_NULL }
}

fn received(status: &MPI_Status) -> usize {
    let mut bytes = 0;
    // SAFETY: the status is that of a receive or a probe.
    unsafe { MPI_Get_count(status, RSMPI_UINT8_T, &mut bytes) };
    usize::try_from(bytes).unwrap_or(0)
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Request(MPI_Request);

// SAFETY: a handle; the library was started with MPI_THREAD_MULTIPLE.
unsafe impl Send for Request {}

/// A request that completed: its index, the bytes that a receive obtained, and whether MPI refused it.
pub(crate) struct Ended {
    pub(crate) index: usize,
    pub(crate) bytes: usize,
    pub(crate) outcome: Result<()>,
}

/// Buffers for the results of [`some`], kept from call to call.
#[derive(Default)]
pub(crate) struct Room {
    indices: Vec<c_int>,
    statuses: Vec<MPI_Status>,
}

/// Moves data, and passes the requests that completed to `note`. They stay in their places, and are not checked
/// again.
pub(crate) fn some(
    requests: &mut [Request],
    room: &mut Room,
    mut note: impl FnMut(Ended),
) -> Result<()> {
    // SAFETY: a status is a plain C structure, for which zeros are fine.
    room.statuses
        .resize(requests.len().max(room.statuses.len()), unsafe {
            std::mem::zeroed()
        });
    room.indices
        .resize(requests.len().max(room.indices.len()), 0);
    let mut ended = 0;
    // SAFETY: `Request` is MPI's handle; both arrays have room for every request.
    let code = unsafe {
        MPI_Testsome(
            requests.len() as c_int,
            requests.as_mut_ptr().cast(),
            &mut ended,
            room.indices.as_mut_ptr(),
            room.statuses.as_mut_ptr(),
        )
    };
    let in_status = code == MPI_ERR_IN_STATUS as c_int;
    if !in_status {
        checked("MPI_Testsome", code)?;
    }
    // MPI_UNDEFINED, returned when no request is left, is negative.
    let ended = usize::try_from(ended).unwrap_or(0);
    for (&index, status) in room.indices.iter().zip(&room.statuses).take(ended) {
        let outcome = if in_status {
            checked("message", status.MPI_ERROR)
        } else {
            Ok(())
        };
        note(Ended {
            index: index as usize,
            bytes: received(status),
            outcome,
        });
    }
    Ok(())
}

/// Whether a request has completed; if so, it must not be checked again.
pub(crate) fn has_ended(request: &mut Request) -> Result<bool> {
    let mut flag = 0;
    // SAFETY: the request is live, or null, which MPI reports as completed.
    let code = unsafe { MPI_Test(&mut request.0, &mut flag, RSMPI_STATUS_IGNORE) };
    checked("MPI_Test", code).map(|()| flag != 0)
}

/// Cancels a receive whose message has not arrived.
pub(crate) fn cancel(request: &mut Request) {
    if request.0 != null() {
        // SAFETY: the request is live.
        unsafe { MPI_Cancel(&mut request.0) };
    }
}
