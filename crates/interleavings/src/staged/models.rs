//! Two ranks that read each other's memory between two meetings, and reuse their own after the second.

use super::group::Group;
use super::meeting::{Key, Post};
use super::registry;
use crate::event::Point;
use crate::sync::{Waits, explore};
use hal::{AbortSignal, Error, GroupId, Join, Result};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

// Longer than any model takes by its clocks, or over after the first wait that expires.
const PATIENT: Duration = Duration::from_secs(3600);
const IMPATIENT: Duration = Duration::from_millis(1);
const MEETING: Key = Key::Collective { sequence: 0 };

// The memory of both ranks, each of which writes its own.
struct Memory([UnsafeCell<u32>; 2]);

// SAFETY: loom checks that no thread reads a cell while another writes it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn read(&self) -> u32 {
        // SAFETY: loom refuses executions in which another thread may write to the cell.
        let element = |cell: &UnsafeCell<u32>| cell.with(|element| unsafe { *element });
        self.0.iter().map(element).sum()
    }

    fn reuse(&self, rank: usize) {
        // SAFETY: loom refuses executions in which another thread may access the cell.
        self.0[rank].with_mut(|element| unsafe { *element = 0 });
    }
}

struct Rank {
    group: Arc<Group>,
    join: Join,
    memory: Arc<Memory>,
}

impl Rank {
    fn post(&self, key: Key, ready: Option<Arc<Point>>) {
        let presence = Post::presence();
        self.group
            .post(key, self.join.rank, Post { ready, ..presence });
    }

    // One call, as `run.rs` makes it.
    fn call(&self) -> Result<u32> {
        let reading = self.group.begin_reading(self.join.rank);
        self.post(MEETING, None);
        let read = self.group.collect(MEETING, &self.join, "call");
        let read = read.map(|_| self.memory.read());
        self.group.end_reading(reading, None);
        let outcome = read.and_then(|sum| {
            self.post(MEETING.read(), None);
            let posts = self.group.collect(MEETING.read(), &self.join, "call")?;
            posts
                .iter()
                .filter_map(|post| post.ready.as_ref())
                .for_each(|read| read.delay());
            Ok(sum)
        });
        let outcome = outcome.map_err(|error| self.fail(error));
        self.memory.reuse(self.join.rank);
        outcome
    }

    // The same, with reads that the device runs after they were queued.
    fn call_on_device(&self) -> Result<u32> {
        let (reading, end) = (
            self.group.begin_reading(self.join.rank),
            Arc::new(Point::default()),
        );
        self.post(MEETING, None);
        let read = self.group.collect(MEETING, &self.join, "call");
        let device = read.is_ok().then(|| {
            let (memory, end) = (self.memory.clone(), end.clone());
            thread::spawn(move || {
                memory.read();
                end.pass();
            })
        });
        self.group
            .end_reading(reading, device.is_some().then(|| end.clone()));
        let outcome = read.and_then(|_| {
            self.post(MEETING.read(), Some(end));
            self.group.collect(MEETING.read(), &self.join, "call")?;
            Ok(0)
        });
        let outcome = outcome.map_err(|error| self.fail(error));
        device.into_iter().for_each(|device| device.join().unwrap());
        outcome
    }

    fn fail(&self, error: Error) -> Error {
        let error = self.group.fail(error);
        self.group.await_readings(PATIENT);
        error
    }
}

fn join(rank: usize, timeout: Duration, abort: &Arc<AbortSignal>) -> Join {
    Join {
        id: GroupId(vec![]),
        label: "model".into(),
        rank,
        members: vec![0, 1],
        timeout,
        abort: abort.clone(),
    }
}

// The outcomes of two ranks, the first of which waits for at most `timeout`.
fn two(timeout: Duration, bodies: [fn(&Rank) -> Result<u32>; 2]) -> [Result<u32>; 2] {
    let abort = Arc::new(AbortSignal::new());
    let joins = [join(0, timeout, &abort), join(1, PATIENT, &abort)];
    let group = Arc::new(Group::new(&joins[0]));
    let memory = Arc::new(Memory([1, 2].map(UnsafeCell::new)));
    let [zero, one] = joins.map(|join| Rank {
        join,
        group: group.clone(),
        memory: memory.clone(),
    });
    let [here, there] = bodies;
    let other = thread::spawn(move || there(&one));
    [here(&zero), other.join().unwrap()]
}

/// Every rank reads what the others posted, and nobody reads memory that its rank reuses.
pub fn no_memory_is_read_after_its_call() {
    explore(Waits::Notified, 3, || {
        assert_eq!(two(PATIENT, [Rank::call; 2]).map(Result::unwrap), [3, 3]);
    });
}

/// A rank that gives up returns when the other one has stopped reading.
pub fn a_rank_that_gives_up_awaits_readers() {
    explore(Waits::Expire, 3, || {
        let [impatient, _] = two(IMPATIENT, [Rank::call; 2]);
        assert!(matches!(impatient, Ok(3) | Err(Error::Timeout { .. })));
    });
}

/// It also waits for reads that the device has yet to run.
pub fn a_rank_that_gives_up_awaits_the_device() {
    explore(Waits::Expire, 2, || {
        let device = |rank: &Rank| rank.call_on_device();
        let [impatient, _] = two(IMPATIENT, [Rank::call, device]);
        assert!(matches!(impatient, Ok(_) | Err(Error::Timeout { .. })));
    });
}

/// A rank that waits learns that the other one has left.
pub fn a_rank_that_left_is_named() {
    explore(Waits::Notified, 3, || {
        let leave = |rank: &Rank| {
            rank.group.leave(1);
            Ok(0)
        };
        let [outcome, _] = two(PATIENT, [Rank::call, leave]);
        assert!(matches!(outcome, Err(Error::Aborted { rank: 1, .. })));
    });
}

/// A failure that one rank reports wakes the other.
pub fn a_failure_wakes_the_other() {
    explore(Waits::Notified, 3, || {
        let fail = |rank: &Rank| Err(rank.group.fail(Error::invalid("call", "a failure", "none")));
        let [outcome, _] = two(PATIENT, [Rank::call, fail]);
        assert!(matches!(outcome, Err(Error::Invalid { .. })));
    });
}

/// An abort ends a wait, although raising it wakes nobody.
pub fn an_abort_ends_a_meeting() {
    explore(Waits::Expire, 3, || {
        let raise = |rank: &Rank| {
            rank.join.abort.raise(1, "failed elsewhere");
            Ok(0)
        };
        let [outcome, _] = two(PATIENT, [Rank::call, raise]);
        assert!(matches!(outcome, Err(Error::Aborted { rank: 1, .. })));
    });
}

/// Ranks that join under one id at the same time find the same group.
pub fn ranks_join_one_group() {
    explore(Waits::Notified, 3, || {
        let id = u64::from(std::process::id()).to_le_bytes();
        let meet = move |rank: usize, abort: &Arc<AbortSignal>| {
            let join = join(rank, PATIENT, abort);
            let group = registry::group(&id, &join).unwrap();
            group.post(Key::Join, rank, Post::presence());
            group.collect(Key::Join, &join, "join").unwrap();
        };
        let abort = Arc::new(AbortSignal::new());
        let of_other = abort.clone();
        let other = thread::spawn(move || meet(1, &of_other));
        meet(0, &abort);
        other.join().unwrap();
    });
}
