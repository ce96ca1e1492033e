//! Where ranks of this process meet: each posts what the others need, and takes what they have posted.

use crate::{event::Point, lock::lock};
use hal::{Collective, Error, Join, Result};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

/// Which meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The first one.
    Join,
    /// Of all ranks, before they read.
    Collective { sequence: u64 },
    /// Of sender and receiver, before the latter reads.
    Message { from: usize, to: usize, sequence: u64 },
    /// After reading, of those who met for a collective.
    CollectiveRead { sequence: u64 },
    /// After reading, of those who met for a message.
    MessageRead { from: usize, to: usize, sequence: u64 },
}

impl Key {
    /// The meeting after reading.
    pub(super) fn read(self) -> Key {
        match self {
            Key::Collective { sequence } => Key::CollectiveRead { sequence },
            Key::Message { from, to, sequence } => Key::MessageRead { from, to, sequence },
            other => other,
        }
    }

    fn sequence(self) -> u64 {
        match self {
            Key::Join => 0,
            Key::Collective { sequence } | Key::CollectiveRead { sequence } => sequence,
            Key::Message { sequence, .. } | Key::MessageRead { sequence, .. } => sequence,
        }
    }

    // The ranks that meet, in order.
    fn ranks(self, size: usize) -> Vec<usize> {
        match self {
            Key::Message { from, to, .. } | Key::MessageRead { from, to, .. } => vec![from, to],
            _ => (0..size).collect(),
        }
    }
}

/// What a rank tells the others.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// Its call, once it has come with one.
    pub(super) call: Option<Collective>,
    /// Behind this its buffers may be read, or have been read by it.
    pub(super) ready: Option<Arc<Point>>,
    /// The vendor's number of its device.
    pub(super) ordinal: usize,
    /// Its elements, where the host reduces.
    pub(super) bytes: Option<Arc<Vec<u8>>>,
}

impl Post {
    /// That the rank is there.
    pub(super) fn presence() -> Post {
        Post { call: None, ready: None, ordinal: 0, bytes: None }
    }
}

/// A group of ranks that are threads of this process.
#[derive(Debug)]
pub(super) struct Group {
    label: String,
    members: Vec<usize>,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    meetings: HashMap<Key, Meeting>,
    failed: Option<Error>,
    left: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Meeting {
    posts: HashMap<usize, Post>,
    taken: usize,
}

/// How often a waiting rank looks for an abort.
const NAP: Duration = Duration::from_millis(20);

impl Group {
    /// A group that nobody has come to.
    pub(super) fn new(join: &Join) -> Group {
        let (state, change) = Default::default();
        Group { label: join.label.clone(), members: join.members.clone(), state, change }
    }

    /// Posts for the others.
    pub(super) fn post(&self, key: Key, rank: usize, post: Post) {
        lock(&self.state).meetings.entry(key).or_default().posts.insert(rank, post);
        self.change.notify_all();
    }

    /// Waits for the posts of all who meet, and gives them in the order of ranks (of a message: sender, receiver).
    pub(super) fn collect(&self, key: Key, join: &Join, operation: &str) -> Result<Vec<Post>> {
        let ranks = key.ranks(self.members.len());
        let start = Instant::now();
        let mut state = lock(&self.state);
        loop {
            if let Some(posts) = state.take(key, &ranks) {
                return Ok(posts);
            }
            let waited = start.elapsed();
            if let Err(error) = self.go_on(&mut state, key, &ranks, join, operation, waited) {
                return Err(self.fail_locked(&mut state, error));
            }
            state = self.change.wait_timeout(state, NAP).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    fn go_on(
        &self,
        state: &mut State,
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
            let reason = format!("it left {} while others waited for it there", self.label);
            return Err(Error::Aborted { rank: self.members[gone], reason });
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

    /// Ends the group for everybody; the first reason stays, and is given back.
    pub(super) fn fail(&self, error: Error) -> Error {
        self.fail_locked(&mut lock(&self.state), error)
    }

    fn fail_locked(&self, state: &mut State, error: Error) -> Error {
        self.change.notify_all();
        state.failed.get_or_insert(error).clone()
    }

    /// That ranks made different calls.
    pub(super) fn mismatch(&self, key: Key, calls: &[Collective]) -> Error {
        let ranks = key.ranks(self.members.len());
        let other = calls.iter().position(|call| !agree(&calls[0], call)).unwrap_or(0);
        let told = |index: usize| (self.members[ranks[index]], describe(&calls[index]));
        let (group, sequence) = (self.label.clone(), key.sequence());
        Error::Mismatch { group, sequence, one: told(0), other: told(other) }
    }

    /// A rank will not come any more.
    pub(super) fn leave(&self, rank: usize) {
        lock(&self.state).left.insert(rank);
        self.change.notify_all();
    }
}

impl State {
    fn missing(&self, key: Key, ranks: &[usize]) -> Vec<usize> {
        let meeting = self.meetings.get(&key);
        let absent = |rank: &usize| !meeting.is_some_and(|meeting| meeting.posts.contains_key(rank));
        ranks.iter().copied().filter(absent).collect()
    }

    // The posts, once all are there. The last rank to take them clears up.
    fn take(&mut self, key: Key, ranks: &[usize]) -> Option<Vec<Post>> {
        let meeting = self.meetings.get_mut(&key)?;
        let posts: Vec<Post> =
            ranks.iter().map(|rank| meeting.posts.get(rank).cloned()).collect::<Option<_>>()?;
        meeting.taken += 1;
        if meeting.taken == ranks.len() {
            self.meetings.remove(&key);
        }
        Some(posts)
    }
}

/// Whether two ranks' calls are the same, addresses aside. Ranks read each other's memory, so this is what makes the
/// lengths that one rank knows hold for all.
pub(super) fn agree(a: &Collective, b: &Collective) -> bool {
    match (a, b) {
        (Collective::Send { buffer: a, .. }, Collective::Recv { buffer: b, .. })
        | (Collective::Recv { buffer: b, .. }, Collective::Send { buffer: a, .. }) => {
            a.len == b.len && a.dtype == b.dtype
        }
        _ => describe(a) == describe(b),
    }
}

fn describe(call: &Collective) -> String {
    match call {
        Collective::ReduceScatter { counts, .. } | Collective::AllGather { counts, .. } => {
            format!("{} in parts of {counts:?}", call.describe())
        }
        _ => call.describe(),
    }
}
