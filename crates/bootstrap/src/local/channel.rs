//! The rounds of one exchange: each member contributes its part, and takes the parts of all once all have
//! arrived.

use hal::Result;
use hal::lock::{lock, wait_timeout};
use hal::sync::{Condvar, Mutex};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// What the members of one exchange share.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) label: String,
    /// World ranks of the live members, in the order of the group.
    pub(super) members: Vec<usize>,
    rounds: Mutex<HashMap<u64, Round>>,
    completed: Condvar,
}

/// The parts of all members, in their order.
pub(super) type Contributions = Arc<Vec<Vec<u8>>>;

#[derive(Debug)]
struct Round {
    /// The parts that have arrived so far; empty once `all` is complete.
    arrived: Vec<Option<Vec<u8>>>,
    all: Option<Contributions>,
    /// Number of members that are done with this round.
    done: usize,
}

impl Channel {
    pub(super) fn new(label: &str, members: &[usize]) -> Self {
        let (rounds, completed) = (Mutex::default(), Condvar::new());
        Self {
            label: label.into(),
            members: members.to_vec(),
            rounds,
            completed,
        }
    }

    /// Contributes a member's part of round `sequence`, once.
    pub(super) fn put(&self, sequence: u64, index: usize, part: Vec<u8>) {
        let mut rounds = lock(&self.rounds);
        let round = rounds
            .entry(sequence)
            .or_insert_with(|| Round::new(self.members.len()));
        round.arrived[index] = Some(part);
        if round.arrived.iter().all(Option::is_some) {
            round.all = Some(Arc::new(
                std::mem::take(&mut round.arrived)
                    .into_iter()
                    .flatten()
                    .collect(),
            ));
            self.completed.notify_all();
        }
    }

    /// Contributes a member's part of round `sequence`, without waiting.
    pub(super) fn give(&self, sequence: u64, index: usize, part: Vec<u8>) {
        self.put(sequence, index, part);
        self.leave(&mut lock(&self.rounds), sequence);
        self.completed.notify_all();
    }

    /// Waits for the parts of round `sequence`, to which this member has contributed its own.
    ///
    /// While parts are missing, it calls `verdict` with their world ranks at least once per `poll`; an error
    /// from `verdict` ends the wait.
    pub(super) fn take(
        &self,
        sequence: u64,
        poll: Duration,
        verdict: impl Fn(Vec<usize>) -> Result<()>,
    ) -> Result<Contributions> {
        let all = |round: &Round| round.all.clone();
        self.wait(sequence, poll, all, |round| verdict(self.missing(round)))
    }

    /// Waits for one member's part of round `sequence`, to which this member has contributed its own; otherwise
    /// like `take`.
    pub(super) fn take_of(
        &self,
        sequence: u64,
        index: usize,
        poll: Duration,
        verdict: impl Fn(Vec<usize>) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let part = |round: &Round| match &round.all {
            Some(all) => Some(all[index].clone()),
            None => round.arrived[index].clone(),
        };
        let absent = |_: &Round| verdict(vec![self.members[index]]);
        self.wait(sequence, poll, part, absent)
    }

    fn wait<T>(
        &self,
        sequence: u64,
        poll: Duration,
        ready: impl Fn(&Round) -> Option<T>,
        verdict: impl Fn(&Round) -> Result<()>,
    ) -> Result<T> {
        let mut rounds = lock(&self.rounds);
        loop {
            let round = rounds
                .get(&sequence)
                .expect("a bug in Fascicle: a round is removed only after all have left");
            let outcome = match ready(round) {
                Some(parts) => Some(Ok(parts)),
                None => verdict(round).err().map(Err),
            };
            if let Some(outcome) = outcome {
                self.leave(&mut rounds, sequence);
                return outcome;
            }
            rounds = wait_timeout(&self.completed, rounds, poll);
        }
    }

    /// World ranks whose part has not arrived.
    fn missing(&self, round: &Round) -> Vec<usize> {
        let parts = self.members.iter().zip(&round.arrived);
        parts
            .filter(|(_, part)| part.is_none())
            .map(|(&rank, _)| rank)
            .collect()
    }

    /// Counts a member as done with a round; the last one removes the round.
    fn leave(&self, rounds: &mut HashMap<u64, Round>, sequence: u64) {
        if let Some(round) = rounds.get_mut(&sequence) {
            round.done += 1;
            if round.done == self.members.len() {
                rounds.remove(&sequence);
            }
        }
    }
}

impl Round {
    fn new(size: usize) -> Self {
        Self {
            arrived: vec![None; size],
            all: None,
            done: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::Error;

    const POLL: Duration = Duration::from_millis(1);

    #[test]
    fn a_round_is_gone_once_all_took_it() {
        let channel = Channel::new("pair", &[4, 7]);
        channel.put(0, 1, vec![7]);
        channel.put(0, 0, vec![4]);
        for _ in 0..2 {
            assert_eq!(
                *channel.take(0, POLL, |_| Ok(())).unwrap(),
                [vec![4], vec![7]]
            );
        }
        assert!(lock(&channel.rounds).is_empty());
    }

    #[test]
    fn who_gives_waits_for_nobody() {
        let channel = Channel::new("pair", &[4, 7]);
        channel.give(0, 0, vec![4]);
        channel.give(1, 0, vec![5]);
        for (sequence, expected) in [(0, 4), (1, 5)] {
            channel.put(sequence, 1, Vec::new());
            let taken = channel.take_of(sequence, 0, POLL, |_| Ok(()));
            assert_eq!(taken.unwrap(), [expected]);
        }
        channel.put(2, 1, Vec::new());
        let absent = channel.take_of(2, 0, POLL, |missing| {
            Err(Error::invalid("take", format!("{missing:?}"), "all"))
        });
        assert_eq!(absent.unwrap_err().to_string(), "take: [4], needs all");
        channel.give(2, 0, vec![6]);
        assert!(lock(&channel.rounds).is_empty());
    }

    #[test]
    fn a_member_that_gave_up_holds_no_round() {
        let channel = Channel::new("pair", &[4, 7]);
        channel.put(0, 0, vec![4]);
        let gave_up = channel.take(0, POLL, |missing| {
            Err(Error::invalid("take", format!("{missing:?}"), "all"))
        });
        assert_eq!(gave_up.unwrap_err().to_string(), "take: [7], needs all");
        channel.put(0, 1, vec![7]);
        assert!(channel.take(0, POLL, |_| Ok(())).is_ok());
        assert!(lock(&channel.rounds).is_empty());
    }
}
