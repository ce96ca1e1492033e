//! Where the ranks of this process meet: each posts what the others need, and takes what they posted.
//!
//! A failure ends the group. From then on no rank begins to read. The rank that failed waits for the reads that have
//! begun ([`readings`](super::readings)), because its caller may then free the memory that it had posted.

use super::{
    meeting::{Key, Post},
    readings::{Reading, Readings},
};
use crate::event::Point;
use hal::lock::{lock, wait_timeout};
use hal::sync::{Condvar, Mutex};
use hal::{Collective, Error, Join, Result, Stopwatch};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// A group of ranks that are threads of this process.
#[derive(Debug)]
pub(super) struct Group {
    label: String,
    members: Vec<usize>,
    state: Mutex<GroupState>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct GroupState {
    meetings: HashMap<Key, Meeting>,
    failed: Option<Error>,
    left: BTreeSet<usize>,
    readings: Readings,
}

#[derive(Debug, Default)]
struct Meeting {
    posts: HashMap<usize, Post>,
    taken: usize,
}

/// How often a waiting rank checks for an abort.
const NAP: Duration = Duration::from_millis(20);
/// How often a rank that failed checks whether the others still read.
const GLANCE: Duration = Duration::from_millis(1);

impl Group {
    /// A group that no rank has joined yet.
    pub(super) fn new(join: &Join) -> Group {
        let (state, change) = Default::default();
        Group {
            label: join.label.clone(),
            members: join.members.clone(),
            state,
            change,
        }
    }

    /// Posts this rank's part of a meeting.
    pub(super) fn post(&self, key: Key, rank: usize, post: Post) {
        lock(&self.state)
            .meetings
            .entry(key)
            .or_default()
            .posts
            .insert(rank, post);
        self.change.notify_all();
    }

    /// Waits until every rank of the meeting has posted, and returns the posts in rank order (for a message: sender,
    /// then receiver).
    pub(super) fn collect(&self, key: Key, join: &Join, operation: &str) -> Result<Vec<Post>> {
        let ranks = key.ranks(self.members.len());
        let start = Stopwatch::start();
        let mut state = lock(&self.state);
        loop {
            if let Some(posts) = state.take(key, &ranks) {
                return Ok(posts);
            }
            let waited = start.elapsed();
            if let Err(error) = self.go_on(&mut state, key, &ranks, join, operation, waited) {
                return Err(self.fail_locked(&mut state, error));
            }
            state = wait_timeout(&self.change, state, NAP);
        }
    }

    /// Announces that `rank` will take posts and read the memory that they name.
    pub(super) fn begin_reading(&self, rank: usize) -> Reading {
        lock(&self.state).readings.begin(rank)
    }

    /// Announces that `reading` queues no further read. The reads that it queued have run once `end` has passed.
    pub(super) fn end_reading(&self, reading: Reading, end: Option<Arc<Point>>) {
        lock(&self.state).readings.end(reading, end);
        self.change.notify_all();
    }

    /// Waits until no rank reads any more, but no longer than `patience`; for a group that has failed.
    pub(super) fn await_readings(&self, patience: Duration) {
        let start = Stopwatch::start();
        let mut state = lock(&self.state);
        while !state.readings.are_over() && start.elapsed() <= patience {
            state = wait_timeout(&self.change, state, GLANCE);
        }
    }

    fn go_on(
        &self,
        state: &mut GroupState,
        key: Key,
        ranks: &[usize],
        join: &Join,
        operation: &str,
        waited: Duration,
    ) -> Result<()> {
        state.failed.clone().map_or(Ok(()), Err)?;
        join.abort.check()?;
        let missing = state.missing(key, ranks);
        if let Some(&gone) = missing.iter().find(|rank| state.left.contains(rank)) {
            let (rank, reason) = (
                self.members[gone],
                format!("it left {} while others waited for it there", self.label),
            );
            // That rank ends the job; its own error may still be on its way here.
            join.abort.raise(rank, reason.clone());
            return Err(Error::Aborted { rank, reason });
        }
        if waited <= join.timeout {
            return Ok(());
        }
        Err(Error::Timeout {
            group: self.label.clone(),
            rank: self.members[join.rank],
            operation: operation.into(),
            sequence: key.sequence(),
            missing: missing.iter().map(|&rank| self.members[rank]).collect(),
            waited,
        })
    }

    /// Ends the group for every rank. The first error stays and is returned.
    pub(super) fn fail(&self, error: Error) -> Error {
        self.fail_locked(&mut lock(&self.state), error)
    }

    fn fail_locked(&self, state: &mut GroupState, error: Error) -> Error {
        self.change.notify_all();
        state.failed.get_or_insert(error).clone()
    }

    /// The error for ranks that made different calls.
    pub(super) fn mismatch(&self, key: Key, calls: &[Collective]) -> Error {
        let ranks = key.ranks(self.members.len());
        let size = self.members.len();
        let other = calls
            .iter()
            .skip(1)
            .position(|call| !calls[0].agrees(call, size))
            .map_or(0, |place| place + 1);
        let told = |index: usize| {
            (
                self.members[ranks[index]],
                calls[index].describe_with_parts(),
            )
        };
        let (group, sequence) = (self.label.clone(), key.sequence());
        Error::Mismatch {
            group,
            sequence,
            one: told(0),
            other: told(other),
        }
    }

    /// Records that a rank will not take part any more.
    pub(super) fn leave(&self, rank: usize) {
        lock(&self.state).left.insert(rank);
        self.change.notify_all();
    }
}

impl GroupState {
    fn missing(&self, key: Key, ranks: &[usize]) -> Vec<usize> {
        let meeting = self.meetings.get(&key);
        let absent =
            |rank: &usize| !meeting.is_some_and(|meeting| meeting.posts.contains_key(rank));
        ranks.iter().copied().filter(absent).collect()
    }

    // The posts, once all are there. The last rank to take them removes the meeting. After a failure no read may begin,
    // because the posted memory may be freed; meetings that follow reads still take place.
    fn take(&mut self, key: Key, ranks: &[usize]) -> Option<Vec<Post>> {
        if self.failed.is_some() && !key.is_read() {
            return None;
        }
        let meeting = self.meetings.get_mut(&key)?;
        let posts: Vec<Post> = ranks
            .iter()
            .map(|rank| meeting.posts.get(rank).cloned())
            .collect::<Option<_>>()?;
        meeting.taken += 1;
        if meeting.taken == ranks.len() {
            self.meetings.remove(&key);
        }
        Some(posts)
    }
}
