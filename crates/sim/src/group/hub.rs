//! The place where the live ranks of a group exchange times.

use crate::state::Host;
use hal::{DType, Error, Result, lock};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A message that has been sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) len: usize,
    pub(super) dtype: DType,
}

/// Identifies a message: two ranks within the group, and its number between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MessageKey {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) number: u64,
}

/// The group, shared by all its live ranks.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) label: String,
    /// World ranks of all members.
    pub(super) members: Vec<usize>,
    /// Indices of the live members, in order.
    pub(super) live: Vec<usize>,
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    hosts: HashMap<usize, Arc<Host>>,
    sent: HashMap<MessageKey, Sent>,
    rounds: HashMap<u64, Round>,
    num_left: usize,
}

// A collective of the live members: which members have arrived, when, and with which call.
#[derive(Debug, Default)]
struct Round {
    came: HashMap<usize, (f64, String)>,
    num_gone: usize,
}

impl Hub {
    pub(super) fn new(label: String, members: Vec<usize>, live: Vec<usize>) -> Hub {
        Hub {
            label,
            members,
            live,
            state: Mutex::default(),
        }
    }

    pub(super) fn is_live(&self, rank: usize) -> bool {
        self.live.binary_search(&rank).is_ok()
    }

    /// A member joins the group; false if it has joined before.
    pub(super) fn admit(&self, rank: usize, host: Arc<Host>) -> bool {
        lock(&self.state).hosts.insert(rank, host).is_none()
    }

    /// A member leaves the group; returns whether it was the last.
    pub(super) fn leave(&self) -> bool {
        let mut state = lock(&self.state);
        state.num_left += 1;
        state.num_left == self.live.len()
    }

    pub(super) fn send(&self, key: MessageKey, sent: Sent) {
        let mut state = lock(&self.state);
        state.sent.insert(key, sent);
        if let Some(host) = state.hosts.get(&key.to) {
            host.tell();
        }
    }

    /// A message that has been sent, or else a time before which it will not be sent.
    pub(super) fn look(&self, key: MessageKey) -> std::result::Result<Sent, f64> {
        let state = lock(&self.state);
        // Under the lock, a message not yet sent starts at its sender's present clock at the earliest. A rank
        // that has not joined has not sent anything, and its clock is unknown.
        let clock = || state.hosts.get(&key.from).map_or(0.0, |host| host.clock());
        state.sent.get(&key).copied().ok_or_else(clock)
    }

    /// Forgets a message that was received.
    pub(super) fn forget(&self, key: MessageKey) {
        lock(&self.state).sent.remove(&key);
    }

    /// A member arrives at a collective at `ready`.
    pub(super) fn come(&self, rank: usize, number: u64, ready: f64, call: String) {
        let mut state = lock(&self.state);
        state
            .rounds
            .entry(number)
            .or_default()
            .came
            .insert(rank, (ready, call));
        state.hosts.values().for_each(|host| host.tell());
    }

    /// The time when the last live member arrived at a collective, if all have arrived. Each member asks until
    /// it receives an answer.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if members arrived with different calls.
    pub(super) fn gather(&self, number: u64) -> Result<Option<f64>> {
        let mut state = lock(&self.state);
        let Some(round) = state.rounds.get_mut(&number) else {
            return Ok(None);
        };
        if round.came.len() < self.live.len() {
            return Ok(None);
        }
        let last = self.compare(round, number);
        round.num_gone += 1;
        if round.num_gone == self.live.len() {
            state.rounds.remove(&number);
        }
        last.map(Some)
    }

    /// World ranks of live members that have not arrived at a collective.
    pub(super) fn absent(&self, number: u64) -> Vec<usize> {
        let state = lock(&self.state);
        let came = |rank: &usize| {
            state
                .rounds
                .get(&number)
                .is_some_and(|round| round.came.contains_key(rank))
        };
        self.live
            .iter()
            .filter(|rank| !came(rank))
            .map(|rank| self.members[*rank])
            .collect()
    }

    fn compare(&self, round: &Round, number: u64) -> Result<f64> {
        let (first, call) = (self.live[0], &round.came[&self.live[0]].1);
        match self.live.iter().find(|rank| round.came[*rank].1 != *call) {
            None => Ok(round
                .came
                .values()
                .fold(0.0, |latest, came| came.0.max(latest))),
            Some(&other) => Err(self.mismatch(
                number,
                (first, call.clone()),
                (other, round.came[&other].1.clone()),
            )),
        }
    }

    pub(super) fn mismatch(
        &self,
        sequence: u64,
        one: (usize, String),
        other: (usize, String),
    ) -> Error {
        let world = |(rank, call): (usize, String)| (self.members[rank], call);
        Error::Mismatch {
            group: self.label.clone(),
            sequence,
            one: world(one),
            other: world(other),
        }
    }
}
