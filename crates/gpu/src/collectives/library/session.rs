//! A communicator of the library, from joining to its end.
//!
//! We use non-blocking communicators where the library has them. The host then polls each call, and no call blocks it
//! longer than the group's timeout. The calls of an older library may block it for ever.

use super::flight::others;
use crate::{
    context::{Context, vendor},
    table::Fault,
    wait::pause,
};
use hal::{Error, Join, Result, Stopwatch, lock};
use rccl_sys::{Comm, Config, Nccl, Status, UniqueId, status};
use std::{
    ffi::{CStr, c_int},
    sync::{Arc, Mutex},
};

/// A communicator, ended when dropped.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) context: Arc<Context>,
    pub(super) nccl: Nccl,
    pub(super) join: Join,
    // `None` once it was aborted.
    comm: Mutex<Option<Pointer>>,
}

#[derive(Clone, Copy, Debug)]
struct Pointer(Comm);

// SAFETY: the library allows any thread to use a communicator, one at a time; the mutex ensures that.
unsafe impl Send for Pointer {}

impl Session {
    /// Joins the group together with its other ranks.
    pub(super) fn open(
        context: &Arc<Context>,
        nccl: Nccl,
        id: UniqueId,
        join: Join,
    ) -> Result<Session> {
        let mut comm = std::ptr::null_mut();
        let (size, rank) = (join.members.len() as c_int, join.rank as c_int);
        // The library takes the device from the calling thread's context.
        context.bind()?;
        let (call, begun) = match nccl.ncclCommInitRankConfig {
            Some(init) => {
                let mut config = Config::with_blocking(false);
                // SAFETY: the pointers are those of live variables; the id came from the library.
                ("ncclCommInitRankConfig", unsafe {
                    init(&mut comm, size, id, rank, &mut config)
                })
            }
            // SAFETY: as above.
            None => ("ncclCommInitRank", unsafe {
                (nccl.ncclCommInitRank)(&mut comm, size, id, rank)
            }),
        };
        if comm.is_null() {
            check(context, &nccl, call, begun)?;
        }
        let session = Session {
            context: context.clone(),
            nccl,
            join,
            comm: Mutex::new(Some(Pointer(comm))),
        };
        let joined = session.settle(comm, call, begun);
        joined.inspect_err(|_| session.abort())?;
        Ok(session)
    }

    /// Runs `work` with the communicator on a thread bound to the device. A failure ends the communicator.
    ///
    /// # Errors
    /// [`Error::Aborted`] once the communicator has ended; the error of `work`.
    pub(super) fn with<T>(&self, work: impl FnOnce(Comm) -> Result<T>) -> Result<T> {
        self.context.bind()?;
        let comm = lock(&self.comm);
        let result = match &*comm {
            Some(Pointer(comm)) => work(*comm),
            None => return Err(self.ended()),
        };
        drop(comm);
        result.inspect_err(|error| {
            self.context.fail(error.clone());
            self.abort();
        })
    }

    fn ended(&self) -> Error {
        let reason = format!(
            "its communicator for {} was ended by an earlier failure",
            self.join.label
        );
        Error::Aborted {
            rank: self.join.members[self.join.rank],
            reason,
        }
    }

    /// Polls until a call is no longer in progress, and returns its outcome.
    ///
    /// # Errors
    /// [`Error::Timeout`] after the group's timeout; [`Error::Aborted`]; [`Error::Vendor`].
    pub(super) fn settle(&self, comm: Comm, call: &'static str, begun: Status) -> Result<()> {
        let start = Stopwatch::start();
        let mut now = begun;
        while now == status::IN_PROGRESS {
            self.join.abort.check()?;
            let waited = start.elapsed();
            if waited > self.join.timeout {
                return Err(self.timeout(call, waited));
            }
            pause(waited);
            // SAFETY: the communicator is live, and the pointer that of a live variable.
            let asked = unsafe { (self.nccl.ncclCommGetAsyncError)(comm, &mut now) };
            self.check("ncclCommGetAsyncError", asked)?;
        }
        self.check(call, now)
    }

    fn timeout(&self, call: &str, waited: std::time::Duration) -> Error {
        Error::Timeout {
            group: self.join.label.clone(),
            rank: self.join.members[self.join.rank],
            operation: call.into(),
            sequence: 0,
            missing: others(&self.join),
            waited,
        }
    }

    pub(super) fn check(&self, call: &'static str, status: Status) -> Result<()> {
        check(&self.context, &self.nccl, call, status)
    }

    /// Fails if the communicator has failed. A thread that is inside a call of it finds that out by itself, so this
    /// does not wait for one.
    pub(super) fn check_async(&self) -> Result<()> {
        let Ok(comm) = self.comm.try_lock() else {
            return Ok(());
        };
        let Some(Pointer(comm)) = *comm else {
            return Err(self.ended());
        };
        let mut now = status::SUCCESS;
        // SAFETY: the communicator is live, and the pointer that of a live variable.
        let asked = unsafe { (self.nccl.ncclCommGetAsyncError)(comm, &mut now) };
        self.check("ncclCommGetAsyncError", asked)?;
        if now == status::IN_PROGRESS {
            Ok(())
        } else {
            self.check("ncclCommGetAsyncError", now)
        }
    }

    /// Ends the communicator and all calls queued on it, without the other ranks.
    pub(super) fn abort(&self) {
        let Some(Pointer(comm)) = lock(&self.comm).take() else {
            return;
        };
        // The failure that led here is the one to report; this call only cleans up.
        let _ = self.context.call(|_| {
            // SAFETY: the communicator is live, and no other thread holds it any more.
            unsafe { (self.nccl.ncclCommAbort)(comm) };
            Ok(())
        });
    }

    fn finalize(&self, comm: Comm) -> Result<()> {
        self.context.bind()?;
        let Some(finalize) = self.nccl.ncclCommFinalize else {
            return Ok(());
        };
        // SAFETY: the communicator is live, and everything queued on it has run.
        let begun = unsafe { finalize(comm) };
        self.settle(comm, "ncclCommFinalize", begun)
    }

    fn destroy(&self, comm: Comm) -> Result<()> {
        // SAFETY: the communicator is live, everything queued on it has run, and no other thread holds it any more.
        self.check("ncclCommDestroy", unsafe {
            (self.nccl.ncclCommDestroy)(comm)
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let comm = *lock(&self.comm);
        let Some(Pointer(comm)) = comm else { return };
        // A communicator that cannot be finalized is aborted. After a failed destroy there is nothing left to end.
        if let Err(error) = self.finalize(comm) {
            self.context.fail(error);
            self.abort();
        } else if let Err(error) = self.destroy(comm) {
            self.context.fail(error);
        }
    }
}

/// A status as a result.
pub(super) fn check(
    context: &Context,
    nccl: &Nccl,
    call: &'static str,
    code: Status,
) -> Result<()> {
    if code == status::SUCCESS {
        return Ok(());
    }
    // SAFETY: the function returns a constant text for any status.
    let mut reason = unsafe { text((nccl.ncclGetErrorString)(code)) };
    if let Some(last) = nccl.ncclGetLastError {
        // SAFETY: the function accepts null, and its text stays valid until the next failure of this thread.
        let detail = unsafe { text(last(std::ptr::null_mut())) };
        if !detail.is_empty() {
            reason += &format!(": {detail}");
        }
    }
    Err(vendor(
        context.id,
        Fault {
            call,
            code: code.into(),
            reason,
            out_of_memory: false,
        },
    ))
}

// Safety: the pointer is null or that of a text that ends with a zero.
unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: passed on from the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
}
