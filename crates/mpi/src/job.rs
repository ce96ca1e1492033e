//! This process's part in the job: its place, its post office, and its timeouts.

use crate::cores;
use crate::exchange::HostExchange;
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
    AbortSignal, DeviceId, Error, Exchange, Result, VendorId,
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
    place: OnceLock<RankLocation>,
    rank: usize,
    size: usize,
    world: Comm,
    post: Post,
    gate: Gate,
    abort: Arc<AbortSignal>,
    progress: Arc<Progress>,
    pub(crate) ending: Ending,
    peers: OnceLock<Vec<(usize, i32)>>,
    occurrences: Mutex<HashMap<(String, Vec<usize>), u64>>,
    findings: OnceLock<Vec<String>>,
    leaving: AtomicBool,
    eager: AtomicBool,
    threads: AtomicUsize,
    longest_bytes: usize,
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
        let first = |fault: Fault| failure(&fault, 0, "");
        let watch = StartWatch::begin(limit).map_err(|error| {
            first(Fault {
                call: "a thread that watches the start",
                code: error.raw_os_error().unwrap_or(-1),
                reason: error.to_string(),
            })
        })?;
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
        let job = Arc::new(Job::connect(longest_bytes).map_err(first)?);
        monitor::start(&job)?;
        job.introduce(limit)?;
        drop(watch);
        Ok(job)
    }

    fn connect(longest_bytes: usize) -> std::result::Result<Job, Fault> {
        let all = Comm::world()?;
        let (rank, size) = (all.rank()?, all.size()?);
        let post = Post::new(all.duplicate()?, rank);
        Ok(Job {
            place: OnceLock::new(),
            rank,
            size,
            world: all.duplicate()?,
            post,
            gate: Gate::new(),
            abort: Arc::default(),
            progress: Arc::new(Progress::new(vec![rank])),
            ending: Ending::default(),
            peers: OnceLock::new(),
            occurrences: Mutex::default(),
            findings: OnceLock::new(),
            leaving: AtomicBool::new(false),
            eager: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
            longest_bytes,
        })
    }

    // Exchanges where every rank runs, and which ranks share a host.
    fn introduce(self: &Arc<Self>, limit: Duration) -> Result<()> {
        let fault = |fault: Fault| self.error(&fault, "");
        let shared = self.world.split_shared(self.rank).map_err(fault)?;
        let (local_rank, local_size) =
            (shared.rank().map_err(fault)?, shared.size().map_err(fault)?);
        let mine = Introduction {
            leader: shared.leader_in(self.world).map_err(fault)?,
            process: std::process::id(),
            cores: cores::allowed(),
        };
        let members: Vec<usize> = (0..self.size).collect();
        let everyone = HostExchange::new(self.clone(), "introduction", &members, 0, limit);
        let all: Vec<Introduction> = everyone
            .all_gather(&mine.encode())?
            .iter()
            .map(|bytes| Introduction::decode(bytes))
            .collect();
        let mut leaders: Vec<usize> = all.iter().map(|one| one.leader).collect();
        leaders.sort_unstable();
        leaders.dedup();
        let node = leaders.binary_search(&mine.leader).unwrap_or(0);
        let place = RankLocation {
            rank: self.rank,
            size: self.size,
            node,
            num_nodes: leaders.len(),
            local_rank,
            local_size,
        };
        let here = || {
            all.iter()
                .enumerate()
                .filter(|(_, one)| one.leader == mine.leader)
        };
        let others = here().filter(|(rank, _)| *rank != self.rank);
        drop(
            self.peers.set(
                others
                    .map(|(rank, one)| (rank, one.process as i32))
                    .collect(),
            ),
        );
        let _ = self.place.set(place);
        let masks: Vec<_> = here().map(|(_, one)| one.cores.clone()).collect();
        let binding = cores::bind(local_rank, &masks);
        self.eager.store(binding.own_core, Ordering::Relaxed);
        self.threads.store(binding.threads, Ordering::Relaxed);
        drop(self.findings.set(vec![
            raw::library(),
            "thread level MPI_THREAD_MULTIPLE".into(),
            format!(
                "{} ranks on {} host{}",
                self.size,
                leaders.len(),
                if leaders.len() == 1 { "" } else { "s" }
            ),
            format!(
                "rank {} is {local_rank} of {local_size} on {}, {}",
                self.rank,
                raw::host(),
                binding.words
            ),
        ]));
        Ok(())
    }

    /// The place of this rank.
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
        self.place.get().copied().unwrap_or(before)
    }

    pub(crate) fn findings(&self) -> &[String] {
        self.findings.get().map_or(&[], Vec::as_slice)
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

    /// World rank and process id of the other ranks on this host.
    pub(crate) fn peers(&self) -> &[(usize, i32)] {
        self.peers.get().map_or(&[], Vec::as_slice)
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

    /// MPI's fault as an error; `about` names the peer, the call and the group.
    pub(crate) fn error(&self, fault: &Fault, about: &str) -> Error {
        failure(fault, self.place().local_rank, about)
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
            self.post.pump().map_err(|fault| self.error(&fault, ""))?
        };
        wait.step(any);
        Ok(())
    }
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
