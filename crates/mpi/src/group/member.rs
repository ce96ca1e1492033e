//! One rank's end of a group, and the order of its calls.

use super::call::CollectiveCall;
use super::staging::Staging;
use crate::job::Job;
use crate::raw::Comm;
use hal::{Collective, Join, Result, Transfer, Work, lock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A rank of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) job: Arc<Job>,
    pub(super) comm: Comm,
    pub(super) label: String,
    pub(super) rank: usize,
    /// World ranks, in the order of ranks.
    pub(super) members: Vec<usize>,
    pub(super) timeout: Duration,
    pub(super) staging: Staging,
    // Number of tags for collectives; messages have the same number.
    tags: u64,
    counters: Mutex<Counters>,
}

#[derive(Debug)]
struct Counters {
    collectives: u64,
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// A collective with its number in the group and its own tags.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) call: Collective,
    pub(super) sequence: u64,
    /// Its messages use this tag and the next.
    pub(super) tag: i32,
}

impl Member {
    /// The end that `join` requests, over a communicator of only its members.
    pub(super) fn new(job: Arc<Job>, join: &Join, comm: Comm) -> Member {
        let size = join.members.len();
        // Calls may overlap on several streams, but never a million of them.
        let tags = (job.world().largest_tag() as u64 / 4).min(1 << 20);
        Member {
            job,
            comm,
            label: join.label.clone(),
            rank: join.rank,
            members: join.members.clone(),
            timeout: join.timeout,
            staging: Staging::default(),
            tags,
            counters: Mutex::new(Counters {
                collectives: 0,
                sent: vec![0; size],
                received: vec![0; size],
            }),
        }
    }

    /// Number of ranks.
    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    // The next number of the call's kind: one count for all collectives, and one for messages between two ranks
    // in one direction.
    fn ticket(&self, call: &Collective) -> Ticket {
        let mut counters = lock(&self.counters);
        let (counter, first) = match *call {
            Collective::Send { to, .. } => (&mut counters.sent[to], 2 * self.tags),
            Collective::Recv { from, .. } => (&mut counters.received[from], 2 * self.tags),
            _ => (&mut counters.collectives, 0),
        };
        let sequence = *counter;
        *counter += 1;
        let tag = (first + 2 * (sequence % self.tags)) as i32;
        Ticket {
            call: call.clone(),
            sequence,
            tag,
        }
    }
}

/// This group's end of the seam.
#[derive(Debug)]
pub(super) struct HostTransfer(pub(super) Arc<Member>);

// SAFETY: a call's operations pass to MPI only parts of the call's own slices. The call returns only once all
// their messages have completed, or once the gate is closed and MPI touches no memory any more. A process that survives
// uses MPI again, and only after all its calls had their messages back.
unsafe impl Transfer for HostTransfer {
    unsafe fn prepare(&self, collectives: &[Collective]) -> Result<Work> {
        collectives
            .iter()
            .try_for_each(|call| call.check(self.0.size()))?;
        let tickets: Vec<Ticket> = collectives.iter().map(|call| self.0.ticket(call)).collect();
        let member = self.0.clone();
        // SAFETY: the caller guarantees the buffers until the work has run, which is until `run` returns.
        Ok(Box::new(move |cancelled| unsafe {
            CollectiveCall::new(&member, tickets).run(cancelled)
        }))
    }
}
