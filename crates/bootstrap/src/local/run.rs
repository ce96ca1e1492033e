//! Starts the ranks, and waits for them to end.

use super::judge::{Evidence, judge};
use super::rank::{Job, Outcome, run_rank};
use super::{Options, panics};
use crate::World;
use crate::failure::{Failure, FailureKind};
use hal::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use hal::sync::thread::{Builder, JoinHandle};
use hal::sync::time::Instant;
use std::{collections::HashSet, fmt, io, sync::Arc, time::Duration};

/// Stack of a rank's thread. Deep models recurse in their tape; memory is committed only when touched.
const STACK_BYTES: usize = 16 << 20;

/// How often the starting thread checks for an abort that no ended rank reported.
const POLL: Duration = Duration::from_millis(25);

/// A rank, and how it ended.
type End<T, E> = (usize, Outcome<T, E>);

/// Runs `body` once per live rank, each on a thread named `rank 0`, `rank 1` and so on, and returns their
/// values in that order. All ranks are live unless [`stand_ins`](Options::stand_ins) is set.
///
/// A rank that returns an error or panics raises the abort signal. The signal ends every wait on an exchange,
/// and the waits of all upper layers that watch it. A panic is printed in one line. Several jobs may run at a
/// time.
///
/// # Errors
/// [`Failure`] with the rank that failed first and how: its own error, a panic, or
/// [`FailureKind::NotStarted`], which options that cannot be also give. It returns at the latest
/// `options.grace` after the signal was raised, and then names the ranks that have not returned. Their threads
/// cannot be ended from outside and still hold what they own, so the program should report the failure and exit.
///
/// # Examples
/// ```
/// use fascicle_bootstrap::local::{Options, run};
///
/// let sums = run(Options::new(4), |world| {
///     let parts = world.everyone().all_gather(&[world.rank() as u8])?;
///     Ok::<u8, hal::Error>(parts.concat().iter().sum())
/// })?;
/// assert_eq!(sums, [6, 6, 6, 6]);
/// # Ok::<(), fascicle_bootstrap::Failure<hal::Error>>(())
/// ```
pub fn run<T, E>(
    options: Options,
    body: impl Fn(World) -> Result<T, E> + Send + Sync + 'static,
) -> Result<Vec<T>, Failure<E>>
where
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    if let Some(reason) = options.refusal() {
        return Err(Failure {
            rank: 0,
            kind: FailureKind::NotStarted(reason),
            others: Box::default(),
        });
    }
    panics::install_hook();
    let grace = options.grace;
    let job = Arc::new(Job::new(options));
    let (sender, receiver) = channel();
    let (threads, not_started) = start(&job, Arc::new(body), sender);
    let mut ends = gather(&job, &receiver, threads.len(), grace);
    let stuck = leave_stuck(threads, &ends);
    ends.extend(not_started);
    judge(evidence(&job, ends, stuck))
}

/// A rank's thread.
type Thread = (usize, JoinHandle<()>);

/// Starts the ranks in order, and stops if the system refuses a thread.
fn start<T, E, F>(
    job: &Arc<Job>,
    body: Arc<F>,
    sender: Sender<End<T, E>>,
) -> (Vec<Thread>, Option<End<T, E>>)
where
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
    F: Fn(World) -> Result<T, E> + Send + Sync + 'static,
{
    let mut threads = Vec::with_capacity(job.live().len());
    for &rank in job.live() {
        let (job_of_rank, body, sender) = (job.clone(), body.clone(), sender.clone());
        let work = move || drop(sender.send((rank, run_rank(&job_of_rank, rank, &*body))));
        match Builder::new()
            .name(format!("rank {rank}"))
            .stack_size(STACK_BYTES)
            .spawn(work)
        {
            Ok(thread) => threads.push((rank, thread)),
            Err(error) => return (threads, Some(refused(job, rank, &error))),
        }
    }
    (threads, None)
}

/// Ends the job because `rank` got no thread. The ranks after it also count as ended, so that nobody waits for
/// them.
fn refused<T, E>(job: &Job, rank: usize, error: &io::Error) -> End<T, E> {
    let reason = format!(
        "thread of rank {rank}, {} in all, stack {} MiB: {error}",
        job.live().len(),
        STACK_BYTES >> 20
    );
    job.fail(rank, &reason);
    job.live()
        .iter()
        .filter(|&&missing| missing >= rank)
        .for_each(|&missing| job.board.end(missing));
    (rank, Err(FailureKind::NotStarted(reason)))
}

/// Waits until the ranks have ended, but no longer than `grace` once the abort signal is raised.
fn gather<T, E>(
    job: &Job,
    receiver: &Receiver<End<T, E>>,
    num_started: usize,
    grace: Duration,
) -> Vec<End<T, E>> {
    let mut ends = Vec::with_capacity(num_started);
    let mut aborted: Option<Instant> = None;
    while ends.len() < num_started && aborted.is_none_or(|since| since.elapsed() < grace) {
        match receiver.recv_timeout(POLL) {
            Ok(end) => ends.push(end),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if aborted.is_none() && job.board.abort.raised().is_some() {
            job.at_failure();
            aborted = Some(Instant::now());
        }
    }
    ends
}

/// Joins the threads of ranks that ended, and names the others.
fn leave_stuck<T, E>(threads: Vec<Thread>, ends: &[End<T, E>]) -> Vec<usize> {
    let ended: HashSet<usize> = ends.iter().map(|(rank, _)| *rank).collect();
    let mut stuck = Vec::new();
    for (rank, thread) in threads {
        match ended.contains(&rank) {
            // The rank has sent its result, so only its last lines are left, and they cannot panic.
            true => drop(thread.join()),
            false => stuck.push(rank),
        }
    }
    stuck
}

fn evidence<T, E>(job: &Job, ends: Vec<End<T, E>>, stuck: Vec<usize>) -> Evidence<T, E> {
    let raised = job
        .board
        .abort
        .raised()
        .map(|(rank, reason)| (rank, reason.to_owned()));
    let (at_failure, now) = (job.at_failure().to_vec(), job.progress.last_seen());
    Evidence {
        ends,
        stuck,
        raised,
        at_failure,
        now,
    }
}
