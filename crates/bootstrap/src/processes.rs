//! Ranks that a launcher outside this program started as processes, one each.
//!
//! A launcher of processes implements [`Processes`]. [`run`] is the counterpart of
//! [`local::run`](crate::local::run) and runs only this process's rank. When a rank fails, one process reports
//! for all, and the others end silently.

use crate::failure::{Failure, FailureKind, Others};
use crate::world::RankLocation;
use crate::{World, local::panics};
use hal::{Result, Transport};
use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::Builder,
    time::{Duration, Instant},
};

/// Stack of the rank's thread, as in a local job.
const STACK_BYTES: usize = 16 << 20;

/// How often the starting thread checks for an abort that its rank has not noticed.
const POLL: Duration = Duration::from_millis(25);

/// The ranks of a job whose processes were started by `mpirun`, `srun` or a similar launcher. This process is
/// one of them.
pub trait Processes: Send + Sync + fmt::Debug {
    /// A description of the library, without joining the job.
    fn library(&self) -> String;

    /// Joins the job on the first call, and returns this process's place in it.
    ///
    /// # Errors
    /// Whatever keeps the library from starting.
    fn join(&self) -> Result<RankLocation>;

    /// What joining found, one line each, for start-up reports.
    fn findings(&self) -> Vec<String>;

    /// Number of threads for this rank: its share of the host's processors.
    fn threads(&self) -> usize;

    /// This rank's view of the job, with this timeout.
    ///
    /// # Errors
    /// As [`join`](Processes::join).
    fn world(&self, timeout: Duration) -> Result<World>;

    /// How devices whose memory is host memory reach the other ranks.
    ///
    /// # Errors
    /// As [`join`](Processes::join).
    fn transport(&self) -> Result<Arc<dyn Transport>>;

    /// Ends the job because of this rank, or of the rank that raised the abort signal before it; `has_returned` says whether the rank's
    /// threads have ended.
    ///
    /// In the one process that reports, returns what is known; all others end. If the job [goes on](Processes::goes_on),
    /// no survivor ends: each gets what it knows.
    fn fail(&self, reason: &str, has_returned: bool) -> Lost;

    /// From now on, the death of a process does not end the others: [`fail`](Processes::fail) returns in each of them, which then
    /// [re-form](Processes::reform) the job. All processes call it.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`] if the library ends the job with a process; those of [`join`](Processes::join).
    fn outlive(&self) -> Result<()>;

    /// Whether the job has ended because processes have died, and the survivors may [re-form](Processes::reform) it.
    fn goes_on(&self) -> bool;

    /// Makes a job of the surviving processes, or at the start of all, and returns this process's new place. All of them call it, when
    /// their ranks have returned.
    ///
    /// `choose` says for a number of processes how many of them work, the same on each. The others stand by: in those the call returns
    /// when processes have died again and this one is needed, and otherwise ends the process with the job.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`] if `choose` finds no number; those of the library.
    fn reform(&self, choose: &dyn Fn(usize) -> Option<usize>) -> Result<RankLocation>;

    /// The index of this process's device on its host. It stays the same when other processes die.
    fn ordinal(&self) -> usize;

    /// Whether the job is ending because of a failure.
    fn is_ending(&self) -> bool;

    /// Leaves the job with this exit status. With 0 it returns once every rank has left; any other status ends
    /// all ranks.
    fn end(&self, status: u8);
}

/// The known facts of a job that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// World rank that failed first.
    pub rank: usize,
    /// Why.
    pub reason: String,
    /// The others.
    pub others: Others,
}

/// Runs `body` as this process's rank, on a thread named after it.
///
/// # Errors
/// [`Failure`] in the process that reports it: [`FailureKind::Error`] if its own rank failed first by an error,
/// otherwise [`FailureKind::Raised`]. In the others this does not return, because they end with the job.
pub fn run<T, E>(
    processes: &dyn Processes,
    timeout: Duration,
    body: impl FnOnce(World) -> Result<T, E> + Send + 'static,
) -> Result<T, Failure<E>>
where
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    panics::install_hook();
    let world = processes
        .world(timeout)
        .map_err(|error| lost(processes.fail(&error.to_string(), true), None))?;
    let (sender, receiver) = channel();
    let (rank, of_rank) = (world.rank(), world.clone());
    let work = move || {
        // The error is formatted in here because its Display is also the caller's code and may panic.
        let told = || body(of_rank).map_err(|error| (error.to_string(), error));
        drop(sender.send(panics::watch(rank, told)));
    };
    let thread = Builder::new()
        .name(format!("rank {rank}"))
        .stack_size(STACK_BYTES)
        .spawn(work);
    let thread = thread.map_err(|error| {
        lost(
            processes.fail(&format!("thread of the rank: {error}"), true),
            None,
        )
    })?;
    let end = wait(&world, &receiver);
    let failure = match end {
        Some(Ok(Ok(value))) => {
            drop(thread.join());
            world.beat("returned");
            return Ok(value);
        }
        Some(Ok(Err((reason, error)))) => lost(processes.fail(&reason, true), Some((rank, error))),
        Some(Err(said)) => lost(processes.fail(&said, true), None),
        None => lost(processes.fail("its thread did not return", false), None),
    };
    Err(failure)
}

type End<T, E> = std::result::Result<Result<T, (String, E)>, String>;

// The rank's result; `None` if it did not arrive within the patience of a job that is ending.
fn wait<T, E>(world: &World, receiver: &Receiver<End<T, E>>) -> Option<End<T, E>> {
    let mut aborted: Option<Instant> = None;
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(end) => return Some(end),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if world.abort().raised().is_none() => {}
            Err(RecvTimeoutError::Timeout) => {
                let since = *aborted.get_or_insert_with(Instant::now);
                if since.elapsed() >= GRACE {
                    return None;
                }
            }
        }
    }
}

/// How long a rank has to return once the job is ending.
const GRACE: Duration = Duration::from_secs(3);

// The failure as a program sees it, with the error itself if it is this rank's own.
fn lost<E>(lost: Lost, own: Option<(usize, E)>) -> Failure<E> {
    let Lost {
        rank,
        reason,
        others,
    } = lost;
    let kind = match own {
        Some((own_rank, error)) if own_rank == rank => FailureKind::Error(error),
        _ => FailureKind::Raised(reason),
    };
    Failure {
        rank,
        kind,
        others: Box::new(others),
    }
}
