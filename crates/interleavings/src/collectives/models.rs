//! Two ranks, each a thread with its own buffer, which it reuses as soon as its call has returned.

use super::call::{Buffer, POISON};
use super::communicator::HostCommunicator;
use super::group::{Counters, Group, Key, Ticket};
use super::member::{Member, Run};
use super::registry;
use crate::sync::{Waits, explore};
use hal::{AbortSignal, Collective, Communicator, Error, GroupId, Join, Result, Stream};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

// Longer than any model takes by its clocks, or over after the first wait that expires.
const PATIENT: Duration = Duration::from_secs(3600);
const IMPATIENT: Duration = Duration::from_millis(1);

fn group() -> Arc<Group> {
    let group = Group::new("model".into(), vec![0, 1]);
    group.admit(0);
    group.admit(1);
    Arc::new(group)
}

fn member(group: &Arc<Group>, rank: usize, timeout: Duration, abort: &Arc<AbortSignal>) -> Member {
    let (group, abort) = (group.clone(), abort.clone());
    Member {
        group,
        rank,
        timeout,
        abort,
    }
}

fn tickets(rank: usize, calls: &[Collective], first: u64) -> Vec<Ticket> {
    let numbered = (first..).map(Key::Collective).zip(calls);
    let ticket = |(key, call): (Key, &Collective)| Ticket {
        key,
        place: rank,
        call: call.clone(),
    };
    numbered.map(ticket).collect()
}

// Reduces a buffer in place, and reuses it at once.
fn reduce(member: &Arc<Member>, number: u64, elements: &[u32]) -> Result<Vec<u32>> {
    let buffer = Buffer::new(elements);
    let tickets = tickets(member.rank, &[buffer.all_reduce()], number);
    // SAFETY: the buffer outlives the call, and nobody else uses it.
    let outcome = unsafe { Run::new(member.clone(), tickets).execute() };
    let found = buffer.reuse();
    outcome.map(|()| found)
}

type Body = fn(&Arc<Member>) -> Result<Vec<u32>>;

// The outcomes of two ranks, the first of which is impatient where `timeouts` says so.
fn two(timeout: Duration, bodies: [Body; 2]) -> [Result<Vec<u32>>; 2] {
    let (group, abort) = (group(), Arc::new(AbortSignal::new()));
    let [zero, one] = [(0, timeout), (1, PATIENT)]
        .map(|(rank, time)| Arc::new(member(&group, rank, time, &abort)));
    let [here, there] = bodies;
    let other = thread::spawn(move || there(&one));
    [here(&zero), other.join().unwrap()]
}

fn once(member: &Arc<Member>) -> Result<Vec<u32>> {
    reduce(member, 0, &[1, 2])
}

fn twice(member: &Arc<Member>) -> Result<Vec<u32>> {
    assert_eq!(reduce(member, 0, &[1])?, [2]);
    reduce(member, 1, &[3])
}

/// Both ranks receive the sums, and no piece of work touches a buffer after the call of its rank has returned.
pub fn no_buffer_is_used_after_its_round() {
    explore(Waits::Notified, 2, || {
        let outcomes = two(PATIENT, [once; 2]);
        assert_eq!(outcomes.map(Result::unwrap), [[2, 4], [2, 4]]);
    });
}

/// Rounds that follow each other do not mix.
pub fn rounds_follow_each_other() {
    explore(Waits::Notified, 1, || {
        let outcomes = two(PATIENT, [twice; 2]);
        assert_eq!(outcomes.map(Result::unwrap), [[6], [6]]);
    });
}

// Sends a buffer to the other rank while it receives that of the other rank.
fn swap(member: &Arc<Member>) -> Result<Vec<u32>> {
    let (rank, other) = (member.rank, 1 - member.rank);
    let (mine, theirs) = (Buffer::new(&[rank as u32 + 7]), Buffer::new(&[0]));
    let message = |from, to| Key::Message {
        from,
        to,
        number: 0,
    };
    let send = Ticket {
        key: message(rank, other),
        place: 0,
        call: Collective::Send {
            buffer: mine.slice(),
            to: other,
        },
    };
    let recv = Ticket {
        key: message(other, rank),
        place: 1,
        call: Collective::Recv {
            buffer: theirs.slice(),
            from: other,
        },
    };
    // SAFETY: both buffers outlive the call, and nobody else uses them.
    let outcome = unsafe { Run::new(member.clone(), vec![send, recv]).execute() };
    mine.reuse();
    outcome.map(|()| theirs.reuse())
}

/// Two ranks that send to each other at once both receive.
pub fn messages_cross() {
    explore(Waits::Notified, 2, || {
        let outcomes = two(PATIENT, [swap; 2]);
        assert_eq!(outcomes.map(Result::unwrap), [[8], [7]]);
    });
}

/// A rank that gives up does so for all: either both receive the sum, or none does and both may reuse their buffers.
pub fn a_timeout_is_for_all_or_none() {
    explore(Waits::Expire, 2, || {
        let [impatient, other] = two(IMPATIENT, [once; 2]);
        match impatient {
            Ok(found) => assert_eq!((found, other.unwrap()), (vec![2, 4], vec![2, 4])),
            Err(error) => {
                assert!(matches!(error, Error::Timeout { .. }));
                other.unwrap_err();
            }
        }
    });
}

/// A piece that panics fails the call of every rank, and nobody waits for the pieces behind it.
pub fn a_panic_fails_every_rank() {
    explore(Waits::Notified, 2, || {
        let poisoned = |member: &Arc<Member>| reduce(member, 0, &[POISON, 1]);
        for outcome in two(PATIENT, [once, poisoned]) {
            assert!(matches!(outcome, Err(Error::Aborted { .. })));
        }
    });
}

/// A rank that waits learns that the other one has left.
pub fn a_rank_that_leaves_is_not_waited_for() {
    explore(Waits::Notified, 2, || {
        let leave = |member: &Arc<Member>| {
            member.group.leave(member.rank, Counters::new(2));
            Ok(vec![])
        };
        let [outcome, _] = two(PATIENT, [once, leave]);
        assert!(matches!(outcome, Err(Error::Aborted { rank: 1, .. })));
    });
}

/// A queued call that a failed stream drops ends the other rank's wait.
pub fn a_dropped_call_ends_the_wait() {
    explore(Waits::Notified, 2, || {
        let dropped = |member: &Arc<Member>| {
            let tickets = tickets(member.rank, &[Collective::Barrier], 0);
            drop(Run::new(member.clone(), tickets));
            Ok(vec![])
        };
        let [outcome, _] = two(PATIENT, [once, dropped]);
        assert!(matches!(outcome, Err(Error::Aborted { rank: 1, .. })));
    });
}

/// An abort ends the wait of a rank, although raising it wakes nobody.
pub fn an_abort_ends_the_wait() {
    explore(Waits::Expire, 2, || {
        let raise = |member: &Arc<Member>| {
            member.abort.raise(1, "failed elsewhere");
            Ok(vec![])
        };
        let [outcome, _] = two(PATIENT, [once, raise]);
        assert!(matches!(outcome, Err(Error::Aborted { rank: 1, .. })));
    });
}

/// Ranks that make different calls all learn so, and no work begins.
pub fn different_calls_end_the_group() {
    explore(Waits::Notified, 2, || {
        let longer = |member: &Arc<Member>| reduce(member, 0, &[1, 2, 3]);
        for outcome in two(PATIENT, [once, longer]) {
            assert!(matches!(outcome, Err(Error::Mismatch { .. })));
        }
    });
}

/// Ranks find each other by the id of their group; once both have left, the id names a new group.
pub fn an_id_outlives_its_group() {
    explore(Waits::Notified, 1, || {
        let abort = Arc::new(AbortSignal::new());
        let meet = |rank: usize, abort: &Arc<AbortSignal>| {
            let join = Join {
                id: GroupId(b"model".into()),
                label: "model".into(),
                rank,
                members: vec![0, 1],
                timeout: PATIENT,
                abort: abort.clone(),
            };
            drop(registry::join(join).unwrap());
        };
        for _ in 0..2 {
            let of_other = abort.clone();
            let other = thread::spawn(move || meet(1, &of_other));
            meet(0, &abort);
            other.join().unwrap();
        }
    });
}
