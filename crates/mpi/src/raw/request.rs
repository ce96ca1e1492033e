//! Messages in flight, and which of them have completed.

use super::{Result, checked};
use mpi::ffi::*;
use std::ffi::c_int;

/// A message in flight.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Request(pub(super) MPI_Request);

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

pub(super) fn null() -> MPI_Request {
    // SAFETY: a constant of the library, read only.
    unsafe { RSMPI_REQUEST_NULL }
}

pub(super) fn received(status: &MPI_Status) -> usize {
    let mut bytes = 0;
    // SAFETY: the status is that of a receive or a probe.
    unsafe { MPI_Get_count(status, RSMPI_UINT8_T, &mut bytes) };
    usize::try_from(bytes).unwrap_or(0)
}
