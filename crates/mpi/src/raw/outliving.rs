//! Calls of libraries in which a job outlives its processes: ULFM, in Open MPI from 5.0 on. MPICH has functions of these names, of
//! which the first ends the process with an assertion (4.0.2 and 5.0.2; its `ch4` device, from which Cray's is derived).
//!
//! They are found by name in the library that is loaded, because most libraries lack them and their codes of errors differ. So a
//! fault is not told by its code: whoever meets one asks which ranks have [died](Comm::dead).

use super::{Comm, Result, checked};
use mpi::ffi::*;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

struct Calls {
    revoke: unsafe extern "C" fn(MPI_Comm) -> c_int,
    shrink: unsafe extern "C" fn(MPI_Comm, *mut MPI_Comm) -> c_int,
    acknowledge: unsafe extern "C" fn(MPI_Comm) -> c_int,
    acknowledged: unsafe extern "C" fn(MPI_Comm, *mut MPI_Group) -> c_int,
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    let found = CALLS.get_or_init(|| {
        if !super::library().contains("Open MPI") {
            return None;
        }
        // SAFETY: the types are those of the functions with these names, in ULFM's specification and in the library.
        unsafe {
            use std::mem::transmute;
            Some(Calls {
                revoke: transmute::<*mut c_void, _>(symbol(c"MPIX_Comm_revoke")?),
                shrink: transmute::<*mut c_void, _>(symbol(c"MPIX_Comm_shrink")?),
                acknowledge: transmute::<*mut c_void, _>(symbol(c"MPIX_Comm_failure_ack")?),
                acknowledged: transmute::<*mut c_void, _>(symbol(c"MPIX_Comm_failure_get_acked")?),
            })
        }
    });
    found.as_ref()
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a name up among the loaded libraries.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Whether the library has these calls. Whether a process that dies leaves the others alive is the launcher's decision as well.
pub(crate) fn outlives() -> bool {
    calls().is_some()
}

impl Comm {
    /// Ends all messages of the communicator, on every rank: those in flight complete with a fault, and no other is taken.
    pub(crate) fn revoke(self) {
        if let Some(calls) = calls() {
            // SAFETY: the communicator is live. A refusal leaves it as it was, and what waits for its messages waits in vain.
            unsafe { (calls.revoke)(self.0) };
        }
    }

    /// A communicator of the ranks that are alive, in their order. Each of them calls it.
    pub(crate) fn shrink(self) -> Result<Comm> {
        let Some(calls) = calls() else {
            return self.duplicate();
        };
        let mut left = self;
        // SAFETY: the communicator is live, if only for this call.
        checked("MPIX_Comm_shrink", unsafe {
            (calls.shrink)(self.0, &mut left.0)
        })?;
        left.returning_errors()
    }

    /// The ranks whose processes have died, as far as this one knows. Receives from any rank, which their death has stopped, are
    /// possible again.
    pub(crate) fn dead(self) -> Result<Vec<usize>> {
        let Some(calls) = calls() else {
            return Ok(Vec::new());
        };
        // SAFETY: the communicator is live.
        checked("MPIX_Comm_failure_ack", unsafe {
            (calls.acknowledge)(self.0)
        })?;
        let (mut all, mut dead) = (self.group()?, MaybeUninit::uninit());
        // SAFETY: as above; MPI writes the handle when it succeeds.
        checked("MPIX_Comm_failure_get_acked", unsafe {
            (calls.acknowledged)(self.0, dead.as_mut_ptr())
        })?;
        // SAFETY: written by the call above, which succeeded.
        let (mut dead, mut count) = (unsafe { dead.assume_init() }, 0);
        // SAFETY: the group is live.
        unsafe { MPI_Group_size(dead, &mut count) };
        let places: Vec<c_int> = (0..count).collect();
        let mut ranks = vec![0; places.len()];
        // SAFETY: both groups are live, and both arrays have as many entries as stated.
        let code = unsafe {
            MPI_Group_translate_ranks(dead, count, places.as_ptr(), all, ranks.as_mut_ptr())
        };
        // SAFETY: both groups are live and not used again; the empty group of MPI itself may be freed too.
        unsafe { (MPI_Group_free(&mut dead), MPI_Group_free(&mut all)) };
        checked("MPI_Group_translate_ranks", code)?;
        Ok(ranks.into_iter().map(|rank| rank as usize).collect())
    }
}
