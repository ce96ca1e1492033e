//! This process's part in the job: its place, its post office, and its timeouts.

use crate::cores;
use crate::gate::Gate;
use crate::introduction::Introduction;
use crate::limit;
use crate::monitor::{self, Ending};
use crate::post::Post;
use crate::raw::{self, Comm, Fault};
use crate::start::{self, StartWatch};
use crate::wait::Wait;
use bootstrap::progress::Progress;
use bootstrap::world::RankLocation;
use hal::{
    AbortSignal, DeviceId, Error, Result, VendorId,
    environment::table::{LONGEST_MESSAGE, START_TIMEOUT},
    lock,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLockReadGuard};
use std::time::Duration;

/// The job, as this process sees it.
#[derive(Debug)]
pub(crate) struct Job {
    rank: usize,
    size: usize,
    // Of the ranks that work, and therefore of this one unless it stands by.
    pub(crate) place: Mutex<Option<RankLocation>>,
    // Those of all processes, by rank.
    pub(crate) introductions: OnceLock<Vec<Introduction>>,
    pub(crate) origin: Origin,
    // The communicator of which `world` is a copy: the next job is made of its ranks.
    pub(crate) base: Comm,
    world: Comm,
    // The communicators of the groups that were made.
    pub(crate) groups: Mutex<Vec<Comm>>,
    post: Post,
    gate: Gate,
    abort: Arc<AbortSignal>,
    progress: Arc<Progress>,
    pub(crate) ending: Ending,
    occurrences: Mutex<HashMap<(String, Vec<usize>), u64>>,
    pub(crate) findings: Mutex<Vec<String>>,
    leaving: AtomicBool,
    outlives: AtomicBool,
    pub(crate) has_outlived: bool,
    pub(crate) eager: AtomicBool,
    pub(crate) threads: AtomicUsize,
    longest_bytes: usize,
    pub(crate) start_limit: Duration,
}

/// What a process was given when it started, and keeps when others die.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    // The processors that it may use.
    pub(crate) cores: Vec<usize>,
    // Its index on its host.
    pub(crate) local_rank: OnceLock<usize>,
}

impl Job {
    /// Starts MPI and finds all ranks. Called once per process, by all processes of the job.
    ///
    /// # Errors
    /// [`Error::Vendor`] if MPI does not start, or does not allow calls from several threads;
    /// [`Error::Invalid`] for an invalid longest message or time to start.
    pub(crate) fn join() -> Result<Arc<Job>> {
        let longest_bytes = limit::longest_bytes(LONGEST_MESSAGE.read())?;
        let limit = start::limit(START_TIMEOUT.read())?;
        let _watch = StartWatch::begin(limit).map_err(no_watch)?;
        if !raw::start().map_err(first)? {
            let reason = format!(
                "{} provides less than MPI_THREAD_MULTIPLE, which overlapping collectives need",
                raw::library()
            );
            return Err(first(Fault {
                call: "MPI_Init_thread",
                code: -1,
                reason,
            }));
        }
        let origin = Origin {
            cores: cores::allowed(),
            local_rank: OnceLock::new(),
        };
        let all = Comm::world().map_err(first)?;
        let job = Arc::new(Job::connect(all, origin, longest_bytes, limit).map_err(first)?);
        job.begin()?;
        Ok(job)
    }

    /// A job of a communicator's processes, which nothing watches yet.
    pub(crate) fn connect(
        all: Comm,
        origin: Origin,
        longest_bytes: usize,
        start_limit: Duration,
    ) -> std::result::Result<Job, Fault> {
        let (rank, size) = (all.rank()?, all.size()?);
        let post = Post::new(all.duplicate()?, rank);
        Ok(Job {
            rank,
            size,
            place: Mutex::default(),
            introductions: OnceLock::new(),
            origin,
            base: all,
            world: all.duplicate()?,
            groups: Mutex::default(),
            post,
            gate: Gate::new(),
            abort: Arc::default(),
            progress: Arc::new(Progress::new(vec![rank])),
            ending: Ending::default(),
            occurrences: Mutex::default(),
            findings: Mutex::default(),
            leaving: AtomicBool::new(false),
            outlives: AtomicBool::new(false),
            has_outlived: false,
            eager: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
            longest_bytes,
            start_limit,
        })
    }

    /// Begins to watch the job, and finds where its processes run.
    pub(crate) fn begin(self: &Arc<Job>) -> Result<()> {
        monitor::start(self)?;
        self.introduce()?;
        self.employ(self.size);
        Ok(())
    }

    /// The place of this rank among those that work.
    pub(crate) fn place(&self) -> RankLocation {
        let Job { rank, size, .. } = *self;
        let before = RankLocation {
            rank,
            size,
            node: 0,
            num_nodes: 1,
            local_rank: 0,
            local_size: 1,
        };
        lock(&self.place).unwrap_or(before)
    }

    /// The index of this process among all.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes, whether they work or stand by.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The index of this process on its host when it started, which decides its device: another may be what killed a process.
    pub(crate) fn ordinal(&self) -> usize {
        self.origin.local_rank.get().copied().unwrap_or(0)
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        lock(&self.findings).clone()
    }

    /// Whether the survivors continue when processes die.
    pub(crate) fn outlives(&self) -> bool {
        self.outlives.load(Ordering::Acquire)
    }

    /// Lets the survivors continue when processes die, if the library can.
    pub(crate) fn outlive(&self) {
        self.outlives.store(true, Ordering::Release);
    }

    /// Whether others have died before it began.
    pub(crate) fn has_outlived(&self) -> bool {
        self.has_outlived
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Keeps the gate open while the guard lives.
    ///
    /// # Errors
    /// [`Error::Aborted`] once it is closed.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let closed = || Error::Aborted {
            rank: self.rank,
            reason: "the job has ended".into(),
        };
        self.gate
            .enter()
            .ok_or_else(|| self.abort.check().err().unwrap_or_else(closed))
    }

    pub(crate) fn post(&self) -> &Post {
        &self.post
    }

    pub(crate) fn world(&self) -> Comm {
        self.world
    }

    pub(crate) fn abort(&self) -> &Arc<AbortSignal> {
        &self.abort
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Number of threads available to this rank.
    pub(crate) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Whether waiting threads may keep their processor for a short time.
    pub(crate) fn is_eager(&self) -> bool {
        self.eager.load(Ordering::Relaxed)
    }

    /// Bytes of the longest message; longer ones are split.
    pub(crate) fn longest_bytes(&self) -> usize {
        self.longest_bytes
    }

    /// Whether every rank has reached the end of the job, after which processes may exit.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// The number of earlier exchanges with this label and these members.
    pub(crate) fn occurrence(&self, label: &str, members: &[usize]) -> u64 {
        let mut occurrences = lock(&self.occurrences);
        let next = occurrences
            .entry((label.into(), members.into()))
            .or_default();
        *next += 1;
        *next
    }

    /// MPI's fault as an error; `about` names the peer, the call and the group. One that comes from a death, or from the end that
    /// follows it, is the end of the job.
    pub(crate) fn error(&self, fault: &Fault, about: &str) -> Error {
        self.note_deaths();
        let ended = self.abort.check().err();
        ended.unwrap_or_else(|| failure(fault, self.place().local_rank, about))
    }

    /// A wait that starts now.
    pub(crate) fn wait(&self, timeout: Duration) -> Wait {
        Wait::new(self.is_eager(), timeout)
    }

    /// Empties the post office once, or waits briefly.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn pump(&self, wait: &mut Wait) -> Result<()> {
        let any = {
            let _open = self.enter()?;
            self.deliver()?
        };
        wait.step(any);
        Ok(())
    }

    /// Empties the post office once. Deaths that keep it from that are noted.
    ///
    /// # Errors
    /// MPI's, for other reasons.
    pub(crate) fn deliver(&self) -> Result<bool> {
        match self.post.pump() {
            Err(_) if self.note_deaths() => Ok(false),
            come => come.map_err(|fault| failure(&fault, self.place().local_rank, "")),
        }
    }
}

pub(crate) fn first(fault: Fault) -> Error {
    failure(&fault, 0, "")
}

pub(crate) fn no_watch(error: std::io::Error) -> Error {
    first(Fault {
        call: "a thread that watches the start",
        code: error.raw_os_error().unwrap_or(-1),
        reason: error.to_string(),
    })
}

fn failure(fault: &Fault, ordinal: usize, about: &str) -> Error {
    let Fault { call, code, reason } = fault;
    let call = if about.is_empty() {
        call.to_string()
    } else {
        format!("{call} {about}")
    };
    let device = DeviceId {
        vendor: VendorId::CPU,
        ordinal,
    };
    Error::Vendor {
        call,
        code: i64::from(*code),
        reason: reason.clone(),
        device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_call_peer_and_group() {
        let fault = Fault {
            call: "MPI_Isend",
            code: 17,
            reason: "MPI_ERR_OTHER".into(),
        };
        let text = failure(&fault, 1, "to rank 3 in all_reduce of axis y").to_string();
        assert_eq!(
            text,
            "MPI_Isend to rank 3 in all_reduce of axis y on cpu:1: code 17, MPI_ERR_OTHER"
        );
    }
}
