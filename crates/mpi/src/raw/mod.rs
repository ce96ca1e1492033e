//! MPI's calls, with results instead of status codes. Callers hold the [`Gate`](crate::gate::Gate) wherever
//! data moves.

mod comm;
mod outliving;
mod request;

pub(crate) use comm::Comm;
pub(crate) use outliving::outlives;
pub(crate) use request::{Ended, Request, Room, cancel, has_ended, some};

use mpi::ffi::*;
use std::ffi::{CStr, c_int};
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
    let line = text.lines().next().unwrap_or_default();
    let words = line.split(", package").next().unwrap_or_default();
    // MPICH lays out a table.
    let words = words.replace("Version:", "");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
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
const REPORTED: Duration = Duration::from_millis(100);

/// Ends all processes of the job with this exit status.
pub(crate) fn abort(status: c_int) -> ! {
    // A launcher may drop what it has not yet read of our report when it is asked to end the job: MPICH's does.
    std::thread::sleep(REPORTED);
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
