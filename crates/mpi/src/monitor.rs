//! How all processes learn of a failure, and how the job ends then.
//!
//! A thread of each process empties its post office and watches the other processes of its host. A process that
//! fails notifies all others, which end their waits and answer with what they were doing. The lowest rank that
//! failed prints the report, and names the rank that answered nobody. Only then is the gate closed, and failed
//! waits return their buffers.

use crate::job::Job;
use crate::notice::{Failed, Notice};
use crate::post::NOTICES;
use crate::raw;
use bootstrap::{LastSeen, Lost, Others};
use hal::lock::{lock, wait_timeout};
use hal::{DeviceId, Error, Result, VendorId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Interval at which the post office is emptied and the neighbours are checked.
const TICK: Duration = Duration::from_millis(20);
/// The same while the job is ending.
const FAST_TICK: Duration = Duration::from_millis(2);
/// Time for waits to report where they were interrupted, before this process answers.
const INTERRUPTING: Duration = Duration::from_millis(20);
/// Time for other ranks that fail simultaneously to report it.
const TOGETHER: Duration = Duration::from_millis(150);
/// Time for ranks to answer; mpirun allows as little as a second once it has lost a process.
const ANSWERING: Duration = Duration::from_millis(600);
/// A process that has not ended by itself this long after the job was settled is ended.
const GRACE: Duration = Duration::from_secs(6);

/// The state of the job's end, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    state: Mutex<MonitorState>,
    changed: Condvar,
    monitor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct MonitorState {
    since: Option<Instant>,
    // By the rank that reported.
    failed: BTreeMap<usize, Failed>,
    states: BTreeMap<usize, (String, Duration)>,
    unanswered: Vec<usize>,
    dead: BTreeSet<usize>,
    // Whether the survivors form a job of their own. Decided once, because the messages of such a job are revoked, and only then
    // given back.
    goes_on: bool,
    // Whether a thread of this process has not left MPI.
    stuck: bool,
    interrupted: BTreeSet<String>,
    settled: Option<Instant>,
    told: bool,
    over: bool,
}

/// Starts the thread.
///
/// # Errors
/// [`Error::Vendor`] when the system refuses it.
pub(crate) fn start(job: &Arc<Job>) -> Result<()> {
    let own = job.clone();
    let thread = Builder::new()
        .name("mpi monitor".into())
        .stack_size(256 << 10)
        .spawn(move || run(&own));
    let thread = thread.map_err(|error| Error::Vendor {
        call: "start the thread that watches the job".into(),
        code: error.raw_os_error().unwrap_or(-1).into(),
        reason: error.to_string(),
        device: DeviceId {
            vendor: VendorId::CPU,
            ordinal: 0,
        },
    })?;
    *lock(&job.ending.monitor) = Some(thread);
    Ok(())
}

fn run(job: &Job) {
    let mut ticks = 0u32;
    loop {
        if let Err(error) = pump(job) {
            job.ending.raise(job, &error);
        }
        ticks += 1;
        if ticks.is_multiple_of(5) && !job.is_leaving() {
            bury(job);
        }
        let mut state = lock(&job.ending.state);
        if state.over {
            return;
        }
        advance(job, &mut state);
        let tick = if state.since.is_some() {
            FAST_TICK
        } else {
            TICK
        };
        drop(wait_timeout(&job.ending.changed, state, tick));
    }
}

fn pump(job: &Job) -> Result<()> {
    // A closed gate is not a failure: the job has ended.
    let come = match job.gate().enter() {
        Some(_open) => job.deliver().map(drop),
        None => Ok(()),
    };
    while let Some((from, bytes)) = job.post().take_notice() {
        let mut state = lock(&job.ending.state);
        match Notice::decode(&bytes) {
            Some(Notice::Failed(failed)) => {
                job.abort().raise(failed.rank, failed.reason.clone());
                state.failed.insert(from, failed);
                state.unanswered.push(from);
            }
            Some(Notice::State { what, age }) => drop(state.states.insert(from, (what, age))),
            None => {}
        }
    }
    come
}

// Detects processes of this host that no longer exist although the job is not over.
fn bury(job: &Job) {
    let dead = job.peers().filter(|(_, process)| !is_alive(*process));
    dead.for_each(|(rank, _)| job.ending.died(job, rank));
}

// A process that has died stays in the table as a zombie until its parent collects it.
fn is_alive(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let state = stat
        .as_ref()
        .ok()
        .and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

// One step of the ending, if the job is ending.
fn advance(job: &Job, state: &mut MonitorState) {
    let Some((rank, reason)) = job.abort().raised() else {
        return;
    };
    let own = job.rank();
    if state.since.is_none() {
        state.since = Some(Instant::now());
        if state.failed.is_empty() {
            state.failed.insert(
                own,
                Failed {
                    rank,
                    missing: Vec::new(),
                    reason: reason.into(),
                },
            );
        }
        if let Some(failed) = state.failed.get(&own) {
            let others = (0..job.size()).filter(|&rank| rank != own);
            others.for_each(|rank| send(job, rank, &Notice::Failed(failed.clone())));
        }
    }
    let elapsed = state.since.map_or(Duration::ZERO, |since| since.elapsed());
    if elapsed >= INTERRUPTING {
        let (what, age) = own_state(job, state);
        let answer = Notice::State { what, age };
        state
            .unanswered
            .drain(..)
            .for_each(|rank| send(job, rank, &answer));
    }
    match state.settled {
        None if elapsed >= patience(job, state) => {
            // First, because a thread may wait within MPI for a rank that has died.
            if job.outlives() && !state.dead.is_empty() && !state.goes_on {
                job.revoke();
                state.goes_on = true;
            }
            if job.gate().try_close() {
                state.settled = Some(Instant::now());
                job.ending.changed.notify_all();
            } else if elapsed >= ANSWERING + GRACE {
                give_up(job, state);
            }
        }
        Some(settled) if settled.elapsed() >= GRACE => give_up(job, state),
        _ => {}
    }
}

// How long this process keeps moving data: the reporting process waits for answers, and the others answer.
fn patience(job: &Job, state: &MonitorState) -> Duration {
    let all_known = silent(job, state).is_empty();
    if state.failed.contains_key(&job.rank()) && all_known {
        TOGETHER
    } else {
        ANSWERING
    }
}

// Ranks that have sent nothing.
fn silent(job: &Job, state: &MonitorState) -> Vec<usize> {
    let known = |rank: &usize| {
        *rank == job.rank()
            || state.failed.contains_key(rank)
            || state.states.contains_key(rank)
            || state.dead.contains(rank)
    };
    (0..job.size()).filter(|rank| !known(rank)).collect()
}

// A receiver whose notice cannot be sent ends by its own watchdog.
fn send(job: &Job, to: usize, notice: &Notice) {
    if let Some(_open) = job.gate().enter() {
        job.post().send(to, NOTICES, 0, &notice.encode()).ok();
    }
}

fn own_state(job: &Job, state: &MonitorState) -> (String, Duration) {
    let seen = job.progress().last_seen();
    let (mut what, age) = seen
        .first()
        .map_or(Default::default(), |seen| (seen.what.clone(), seen.age));
    for interrupted in &state.interrupted {
        what += &format!(", in {interrupted}");
    }
    (what, age)
}

// The process did not end by itself, because a rank is stuck where it notices nothing.
fn give_up(job: &Job, state: &mut MonitorState) -> ! {
    if state.reports(job)
        && !state.told
        && let Some(lost) = lost(job, state)
    {
        eprintln!("{}", report(lost));
    }
    raw::abort(1)
}

/// What is known of a failure, for the user.
pub(crate) fn report(lost: Lost) -> String {
    let failure = bootstrap::Failure::<String> {
        rank: lost.rank,
        kind: bootstrap::FailureKind::Raised(lost.reason),
        others: Box::new(lost.others),
    };
    failure.report()
}

// What this process knows of the failure.
fn lost(job: &Job, state: &MonitorState) -> Option<Lost> {
    let own = job.rank();
    let silent = silent(job, state);
    let told: Vec<&Failed> = state.failed.values().collect();
    let first = told.iter().find(|failed| failed.missing.is_empty());
    // Among ranks that waited, the one that waited for an unresponsive rank knows the most.
    let knows = || {
        told.iter()
            .find(|failed| failed.missing.iter().any(|rank| silent.contains(rank)))
    };
    let first = *first.or_else(knows).or(told.first())?;
    let mut failed: Vec<(usize, String)> = told
        .iter()
        .filter(|other| **other != first)
        .map(|other| (other.rank, other.reason.clone()))
        .collect();
    failed.dedup();
    let seen = |(&rank, (what, age)): (&usize, &(String, Duration))| LastSeen {
        rank,
        what: what.clone(),
        age: *age,
    };
    let mut last_seen: Vec<LastSeen> = state.states.iter().map(seen).collect();
    last_seen.push(seen((&own, &own_state(job, state))));
    last_seen.sort_by_key(|seen| seen.rank);
    let others = Others {
        failed,
        stuck: Vec::new(),
        silent,
        last_seen,
    };
    Some(Lost {
        rank: first.rank,
        reason: first.reason.clone(),
        others,
    })
}

impl MonitorState {
    // Whether this process joins the next job.
    fn goes_on(&self) -> bool {
        self.settled.is_some() && self.goes_on && !self.stuck
    }

    // Whether this process prints the report.
    fn reports(&self, job: &Job) -> bool {
        self.failed.first_key_value().map(|(&rank, _)| rank) == Some(job.rank())
    }
}

impl Ending {
    /// Ends the job because a process has died.
    pub(crate) fn died(&self, job: &Job, rank: usize) {
        if !lock(&self.state).dead.insert(rank) {
            return;
        }
        self.tell(
            job,
            Failed {
                rank,
                missing: Vec::new(),
                reason: job.obituary(rank),
            },
        );
    }

    /// Whether processes have died, and this one continues with the other survivors.
    pub(crate) fn goes_on(&self) -> bool {
        lock(&self.state).goes_on()
    }

    /// The same, and whether this is still undecided.
    pub(crate) fn may_go_on(&self, job: &Job) -> bool {
        let state = lock(&self.state);
        let undecided = job.outlives() && state.settled.is_none() && !state.stuck;
        undecided || state.goes_on()
    }

    /// Whether this process prints the report.
    pub(crate) fn reports(&self, job: &Job) -> bool {
        lock(&self.state).reports(job)
    }

    /// A thread of this process has not left MPI, so this process cannot continue.
    pub(crate) fn get_stuck(&self) {
        lock(&self.state).stuck = true;
    }

    /// Ends the job because of this rank's error, unless it is ending already.
    pub(crate) fn raise(&self, job: &Job, error: &Error) {
        let missing = match error {
            Error::Aborted { .. } => return,
            Error::Timeout { missing, .. } => missing.clone(),
            _ => Vec::new(),
        };
        self.tell(
            job,
            Failed {
                rank: job.rank(),
                missing,
                reason: error.to_string(),
            },
        );
    }

    /// Ends the job because of what happened to a rank, unless the job is already ending.
    pub(crate) fn tell(&self, job: &Job, failed: Failed) {
        let mut state = lock(&self.state);
        if job.abort().raised().is_none() {
            job.abort().raise(failed.rank, failed.reason.clone());
            state.failed.insert(job.rank(), failed);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Records where a wait was when the job ended.
    pub(crate) fn interrupted(&self, place: String) {
        lock(&self.state).interrupted.insert(place);
    }

    /// Waits until no data moves any more; returns at once if the job is not ending.
    pub(crate) fn settle(&self, job: &Job) {
        let mut state = lock(&self.state);
        while job.abort().raised().is_some() && state.settled.is_none() && !state.over {
            state = wait_timeout(&self.changed, state, TICK);
        }
    }

    /// The report for the user, if this process prints it or continues.
    pub(crate) fn lost(&self, job: &Job) -> Option<Lost> {
        let mut state = lock(&self.state);
        let has_one = state.reports(job) || state.goes_on();
        let lost = lost(job, &state).filter(|_| has_one);
        state.told |= lost.is_some();
        lost
    }

    /// Ends the thread: the job is over, and no failure can occur any more.
    pub(crate) fn stop(&self) {
        lock(&self.state).over = true;
        self.changed.notify_all();
        if let Some(thread) = lock(&self.monitor).take() {
            drop(thread.join());
        }
    }
}
