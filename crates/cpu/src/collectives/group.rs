//! A process group: its members, and the rounds that are gathering.
//!
//! One lock covers everything that decides whether a round takes place: arriving, withdrawing, leaving,
//! failing. So either all members arrive at a round and stay until its work is done, or the round fails for
//! all.

use super::round::{Progress, Round};
use crate::wait::Signal;
use hal::{Collective, Error, Result, lock, sync::Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a round: every member gives its calls the same numbers, whatever streams they run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// All members join.
    Join,
    /// The collective of that number.
    Collective(u64),
    /// Between two members, counted by pair and direction.
    Message { from: usize, to: usize, number: u64 },
}

impl Key {
    /// Number of the collective, or of the message within its pair.
    pub(super) fn sequence(self) -> u64 {
        match self {
            Key::Join => 0,
            Key::Collective(number) | Key::Message { number, .. } => number,
        }
    }
}

/// One member's position in a round.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) key: Key,
    /// Its index among the members of the round.
    pub(super) place: usize,
    pub(super) call: Collective,
}

impl Ticket {
    /// A description of the call.
    pub(super) fn describe(&self) -> String {
        if self.key == Key::Join {
            "join".into()
        } else {
            self.call.describe_with_parts()
        }
    }
}

/// The number of calls of each kind that a member has made.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) collectives: u64,
    /// By receiver.
    pub(super) sent: Vec<u64>,
    /// By sender.
    pub(super) received: Vec<u64>,
}

impl Counters {
    /// No call yet, in a group of `size`.
    pub(super) fn new(size: usize) -> Counters {
        Counters {
            collectives: 0,
            sent: vec![0; size],
            received: vec![0; size],
        }
    }

    // Whether a member with these final counts arrives at a round in which it takes part.
    fn include(&self, rank: usize, key: Key) -> bool {
        match key {
            Key::Join => true,
            Key::Collective(number) => number < self.collectives,
            Key::Message { from, to, number } => {
                (from != rank || number < self.sent[to])
                    && (to != rank || number < self.received[from])
            }
        }
    }
}

/// State shared by the members of a group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) label: String,
    /// World ranks, in the order of ranks.
    pub(super) members: Vec<usize>,
    state: Mutex<GroupState>,
    signals: Vec<Signal>,
}

#[derive(Debug)]
struct GroupState {
    gathering: BTreeMap<Key, Gathering>,
    joined: Vec<bool>,
    // The final counts of members that have left.
    left: BTreeMap<usize, Counters>,
    present: usize,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Gathering {
    round: Arc<Round>,
    calls: Vec<Option<Collective>>,
}

impl Group {
    /// A group that nobody has joined.
    pub(super) fn new(label: String, members: Vec<usize>) -> Group {
        let joined = vec![false; members.len()];
        let (gathering, left) = Default::default();
        let state = Mutex::new(GroupState {
            gathering,
            joined,
            left,
            present: 0,
            failed: None,
        });
        let signals = members.iter().map(|_| Signal::default()).collect();
        Group {
            label,
            members,
            state,
            signals,
        }
    }

    /// Number of ranks.
    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// Notifies a member that one of its rounds has changed.
    pub(super) fn signal(&self, rank: usize) -> &Signal {
        &self.signals[rank]
    }

    /// Admits a rank; returns whether it is the first time.
    pub(super) fn admit(&self, rank: usize) -> bool {
        let mut state = lock(&self.state);
        let first = !std::mem::replace(&mut state.joined[rank], true);
        state.present += usize::from(first);
        first
    }

    /// A member arrives at a round. The last one compares the calls and starts the work.
    ///
    /// If the group has failed, the round has ended with that failure.
    ///
    /// # Safety
    /// The call's buffers have the lengths that the operation requires. Until the round has ended they are
    /// live, and nobody else uses them.
    pub(super) unsafe fn come(&self, ticket: &Ticket) -> Arc<Round> {
        let mut state = lock(&self.state);
        if let Some(gone) = self.gone(&state, ticket.key) {
            self.fail_all(&mut state, self.left_error(gone));
        }
        if let Some(error) = &state.failed {
            let round = Round::default();
            round.refuse(error.clone());
            return Arc::new(round);
        }
        let num_places = self.num_places(ticket.key);
        let gathering = state
            .gathering
            .entry(ticket.key)
            .or_insert_with(|| Gathering {
                round: Arc::default(),
                calls: vec![None; num_places],
            });
        gathering.calls[ticket.place] = Some(ticket.call.clone());
        let round = gathering.round.clone();
        if gathering.calls.iter().all(Option::is_some) {
            // SAFETY: every member has arrived, each with the guarantee that this function requires.
            unsafe { self.complete(&mut state, ticket) };
        }
        round
    }

    /// # Safety
    /// All members have arrived at the ticket's round, with the guarantee of [`come`](Group::come).
    unsafe fn complete(&self, state: &mut GroupState, ticket: &Ticket) {
        let Some(gathering) = state.gathering.get_mut(&ticket.key) else {
            return;
        };
        let calls: Vec<Collective> = gathering
            .calls
            .iter_mut()
            .filter_map(Option::take)
            .collect();
        if let Some(error) = self.mismatch(ticket.key, &calls) {
            return self.fail_all(state, error);
        }
        // SAFETY: the caller guarantees all members' buffers; the calls agree, as just compared.
        let pieces = unsafe { gathering.round.begin(calls) }.pieces();
        state.gathering.remove(&ticket.key);
        self.call_helpers(ticket, pieces);
    }

    fn mismatch(&self, key: Key, calls: &[Collective]) -> Option<Error> {
        let other = calls
            .iter()
            .skip(1)
            .position(|call| !calls[0].agrees(call, self.size()))?
            + 1;
        let named = |place| {
            (
                self.members[self.rank_at(key, place)],
                calls[place].describe_with_parts(),
            )
        };
        let (group, sequence) = (self.label.clone(), key.sequence());
        Some(Error::Mismatch {
            group,
            sequence,
            one: named(0),
            other: named(other),
        })
    }

    // Work for one thread is done before the others would be awake, so they are notified when it has ended.
    fn call_helpers(&self, ticket: &Ticket, pieces: usize) {
        let num_places = self.num_places(ticket.key);
        let others = (1..num_places)
            .map(|step| self.rank_at(ticket.key, (ticket.place + step) % num_places));
        let helpers = match pieces {
            0 => num_places,
            pieces => (pieces - 1).min(crate::patience::processors() - 1),
        };
        others
            .take(helpers)
            .for_each(|rank| self.signals[rank].raise());
    }

    /// Does pieces of a round's work for `rank`, and returns the round's progress.
    pub(super) fn advance(&self, rank: usize, key: Key, round: &Round) -> Progress {
        round.help(self.members[rank], || {
            self.ranks(key).for_each(|rank| self.signals[rank].raise())
        });
        round.progress()
    }

    /// Ends a round that is still gathering, and with it the group. `error` receives the world ranks that have
    /// not arrived.
    pub(super) fn withdraw(&self, key: Key, error: impl FnOnce(Vec<usize>) -> Error) {
        let mut state = lock(&self.state);
        let Some(gathering) = state.gathering.get(&key) else {
            return;
        };
        let absent = |(rank, call): (usize, &Option<Collective>)| {
            call.is_none().then_some(self.members[rank])
        };
        let missing = self
            .ranks(key)
            .zip(&gathering.calls)
            .filter_map(absent)
            .collect();
        self.fail_all(&mut state, error(missing));
    }

    /// Ends every round that is still gathering, and all later ones. The first failure is kept.
    pub(super) fn fail(&self, error: Error) {
        self.fail_all(&mut lock(&self.state), error);
    }

    /// A member leaves after `counters` calls; returns whether it was the last one.
    pub(super) fn leave(&self, rank: usize, counters: Counters) -> bool {
        let mut state = lock(&self.state);
        state.left.insert(rank, counters);
        state.present -= 1;
        if state
            .gathering
            .keys()
            .any(|&key| self.gone(&state, key).is_some())
        {
            self.fail_all(&mut state, self.left_error(rank));
        }
        state.present == 0
    }

    fn fail_all(&self, state: &mut GroupState, error: Error) {
        let error = state.failed.get_or_insert(error).clone();
        std::mem::take(&mut state.gathering)
            .into_values()
            .for_each(|gathering| gathering.round.refuse(error.clone()));
        self.signals.iter().for_each(Signal::raise);
    }

    // A rank that takes part in the round and has left before.
    fn gone(&self, state: &GroupState, key: Key) -> Option<usize> {
        let mut left = state
            .left
            .iter()
            .filter(|(rank, _)| self.ranks(key).any(|asked| asked == **rank));
        left.find(|(rank, counters)| !counters.include(**rank, key))
            .map(|(&rank, _)| rank)
    }

    fn left_error(&self, rank: usize) -> Error {
        let reason = format!("it left {} while others waited for it there", self.label);
        Error::Aborted {
            rank: self.members[rank],
            reason,
        }
    }

    fn num_places(&self, key: Key) -> usize {
        if let Key::Message { .. } = key {
            2
        } else {
            self.size()
        }
    }

    // A message has the sender first and the receiver second; every other round has all ranks in order.
    fn rank_at(&self, key: Key, place: usize) -> usize {
        match key {
            Key::Message { from, to, .. } => [from, to][place],
            Key::Join | Key::Collective(_) => place,
        }
    }

    // The ranks that take part in the round, in the order of places.
    fn ranks(&self, key: Key) -> impl Iterator<Item = usize> {
        (0..self.num_places(key)).map(move |place| self.rank_at(key, place))
    }
}

/// Result of [`Progress::Ended`], if that is what it is.
pub(super) fn ended(progress: Progress) -> Option<Result<()>> {
    if let Progress::Ended(outcome) = progress {
        Some(outcome)
    } else {
        None
    }
}
