//! The seam's communicator: it numbers calls when they are made, and runs them on a stream.

use super::group::{Counters, Key, Ticket};
use super::member::{Member, Run};
use super::registry;
use crate::stream::HostStream;
use hal::{Collective, Communicator, Result, Stream};
use std::cell::RefCell;
use std::sync::Arc;

/// One rank's end of a group.
#[derive(Debug)]
pub(super) struct HostCommunicator {
    member: Arc<Member>,
    counters: RefCell<Counters>,
}

impl HostCommunicator {
    /// The end of `member`, which leaves its group when this is dropped.
    pub(super) fn new(member: Member, counters: Counters) -> HostCommunicator {
        HostCommunicator {
            member: Arc::new(member),
            counters: RefCell::new(counters),
        }
    }

    /// The member of the group.
    pub(super) fn member(&self) -> Arc<Member> {
        self.member.clone()
    }

    // The ticket of a call that `Collective::check` has accepted. Calls keep their numbers on whichever stream
    // they run, so members need not use their streams alike.
    fn ticket(&self, call: &Collective) -> Ticket {
        let rank = self.member.rank;
        let mut counters = self.counters.borrow_mut();
        let (key, place) = match *call {
            Collective::Send { to, .. } => (
                Key::Message {
                    from: rank,
                    to,
                    number: next(&mut counters.sent[to]),
                },
                0,
            ),
            Collective::Recv { from, .. } => (
                Key::Message {
                    from,
                    to: rank,
                    number: next(&mut counters.received[from]),
                },
                1,
            ),
            _ => (Key::Collective(next(&mut counters.collectives)), rank),
        };
        Ticket {
            key,
            place,
            call: call.clone(),
        }
    }
}

fn next(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter - 1
}

// SAFETY: rank and size are those with which the group was joined. A round works only on the buffers of its own
// calls. It does so after all members have arrived, each within its stream, and before the end, for which all
// of them wait there.
unsafe impl Communicator for HostCommunicator {
    fn rank(&self) -> usize {
        self.member.rank
    }

    fn size(&self) -> usize {
        self.member.group.size()
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let stream = HostStream::of(stream)?;
        collectives
            .iter()
            .try_for_each(|call| call.check(self.size()))?;
        let tickets = collectives.iter().map(|call| self.ticket(call)).collect();
        let run = Run::new(self.member.clone(), tickets);
        // SAFETY: the caller guarantees the buffers until the work has run, which is until `execute` returns.
        stream.submit(move || unsafe { run.execute() })
    }
}

impl Drop for HostCommunicator {
    fn drop(&mut self) {
        registry::leave(&self.member, self.counters.borrow().clone());
    }
}
