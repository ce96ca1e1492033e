//! Messages in flight for one call.

use super::member::{Member, Ticket};
use crate::raw::{self, Ended, Request};
use hal::{Error, RawSlice, Result};
use std::time::{Duration, Instant};

/// The purpose of a message: an operation of the call, and a number within that operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) operation: usize,
    pub(super) token: usize,
}

/// The destination or source of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Rank within the group.
    pub(super) peer: usize,
    pub(super) tag: i32,
    /// Whether the peer may itself have to wait for others before it does its part.
    pub(super) indirect: bool,
}

#[derive(Clone, Copy, Debug)]
struct About {
    key: Key,
    way: Way,
    receives: bool,
    bytes: usize,
}

/// The messages of one call of one rank.
pub(super) struct Wire<'a> {
    member: &'a Member,
    tickets: &'a [Ticket],
    longest_bytes: usize,
    requests: Vec<Request>,
    abouts: Vec<About>,
    direct: usize,
    room: raw::Room,
    ended: Vec<Ended>,
}

impl<'a> Wire<'a> {
    /// No message yet.
    pub(super) fn new(member: &'a Member, tickets: &'a [Ticket]) -> Wire<'a> {
        let (requests, abouts, ended) = Default::default();
        let (longest_bytes, room) = (member.job.longest_bytes(), raw::Room::default());
        Wire {
            member,
            tickets,
            longest_bytes,
            requests,
            abouts,
            direct: 0,
            room,
            ended,
        }
    }

    /// The rank that owns these messages.
    pub(super) fn member(&self) -> &'a Member {
        self.member
    }

    /// Sends a slice, and returns the number of messages that this takes, 0 for an empty slice.
    ///
    /// # Safety
    /// The slice is live, and not written, until the messages have completed or the gate is closed.
    pub(super) unsafe fn send(&mut self, key: Key, slice: RawSlice, way: Way) -> Result<usize> {
        self.pieces(slice, |wire, start, bytes| {
            let from = (slice.addr as usize + start) as *const u8;
            // SAFETY: within the slice, which the caller guarantees.
            let request = unsafe { wire.member.comm.send(from, bytes, way.peer, way.tag) };
            wire.keep(
                request,
                About {
                    key,
                    way,
                    receives: false,
                    bytes,
                },
            )
        })
    }

    /// Receives a slice, and returns the number of messages that this takes, 0 for an empty slice.
    ///
    /// # Safety
    /// The slice is live, and nobody else uses it, until the messages have completed or the gate is closed.
    pub(super) unsafe fn recv(&mut self, key: Key, slice: RawSlice, way: Way) -> Result<usize> {
        self.pieces(slice, |wire, start, bytes| {
            let to = (slice.addr as usize + start) as *mut u8;
            // SAFETY: within the slice, which the caller guarantees.
            let request = unsafe { wire.member.comm.recv(to, bytes, way.peer, way.tag) };
            wire.keep(
                request,
                About {
                    key,
                    way,
                    receives: true,
                    bytes,
                },
            )
        })
    }

    fn pieces(
        &mut self,
        slice: RawSlice,
        mut post: impl FnMut(&mut Self, usize, usize) -> Result<()>,
    ) -> Result<usize> {
        let _open = self.member.job.enter()?;
        let all = slice.bytes();
        let starts = (0..all).step_by(self.longest_bytes);
        let count = starts.len();
        for start in starts {
            post(self, start, self.longest_bytes.min(all - start))?;
        }
        Ok(count)
    }

    fn keep(&mut self, request: Result<Request, raw::Fault>, about: About) -> Result<()> {
        self.requests
            .push(request.map_err(|fault| self.refused(&fault, about))?);
        self.abouts.push(about);
        self.direct += usize::from(!about.way.indirect);
        Ok(())
    }

    /// Moves data, and returns the keys of the messages that completed.
    ///
    /// # Errors
    /// MPI's; [`Error::Mismatch`] for a message of another length.
    pub(super) fn poll(&mut self) -> Result<Vec<Key>> {
        if self.requests.is_empty() {
            return Ok(Vec::new());
        }
        self.ended.clear();
        {
            let _open = self.member.job.enter()?;
            let note = |ended| self.ended.push(ended);
            let fault = raw::some(&mut self.requests, &mut self.room, note).err();
            if let Some(fault) = fault {
                return Err(self.member.job.error(&fault, &self.place()));
            }
        }
        // From the last one, so that removing an entry does not move the remaining ones.
        self.ended
            .sort_unstable_by_key(|ended| std::cmp::Reverse(ended.index));
        let mut keys: Vec<Key> = Vec::with_capacity(self.ended.len());
        for ended in std::mem::take(&mut self.ended) {
            keys.push(self.remove(&ended)?);
        }
        Ok(keys)
    }

    fn remove(&mut self, ended: &Ended) -> Result<Key> {
        self.requests.swap_remove(ended.index);
        let about = self.abouts.swap_remove(ended.index);
        self.direct -= usize::from(!about.way.indirect);
        match &ended.outcome {
            Err(fault) if fault.is_truncation() => Err(self.differs(about, "more")),
            Err(fault) => Err(self.refused(fault, about)),
            Ok(()) if about.receives && ended.bytes != about.bytes => {
                Err(self.differs(about, &ended.bytes.to_string()))
            }
            Ok(()) => Ok(about.key),
        }
    }

    /// Whether every remaining message waits for a peer that may itself be waiting.
    pub(super) fn is_indirect(&self) -> bool {
        self.direct == 0
    }

    /// The wait as an error that names the missing ranks and the call.
    pub(super) fn late(&self, waited: Duration) -> Error {
        let ticket = self
            .abouts
            .first()
            .map_or(&self.tickets[0], |about| &self.tickets[about.key.operation]);
        Error::Timeout {
            group: self.member.label.clone(),
            rank: self.member.members[self.member.rank],
            operation: ticket.call.describe(),
            sequence: ticket.sequence,
            missing: self.missing(),
            waited,
        }
    }

    // World ranks of the peers that have not done their part; peers that only wait themselves count if there
    // are no others.
    fn missing(&self) -> Vec<usize> {
        let of = |keep: &dyn Fn(&&About) -> bool| {
            let peers = self
                .abouts
                .iter()
                .filter(keep)
                .map(|about| self.member.members[about.way.peer]);
            let mut peers: Vec<usize> = peers.collect();
            peers.sort_unstable();
            peers.dedup();
            peers
        };
        let receives = of(&|about| about.receives && !about.way.indirect);
        let sends = || of(&|about| !about.receives && !about.way.indirect);
        [receives, sends(), of(&|_| true)]
            .into_iter()
            .find(|peers| !peers.is_empty())
            .unwrap_or_default()
    }

    /// After a failure, cancels what has not begun.
    pub(super) fn take_back(&mut self) {
        if let Ok(_open) = self.member.job.enter() {
            let receives = self
                .requests
                .iter_mut()
                .zip(&self.abouts)
                .filter(|(_, about)| about.receives);
            receives.for_each(|(request, _)| raw::cancel(request));
        }
    }

    /// Waits until MPI has given back all messages, whose communicator is revoked; whether it has.
    pub(super) fn drain(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        loop {
            // One by one: Open MPI's call for several does not look for those whose communicator was revoked. One that it refuses has
            // ended as well.
            self.requests
                .retain_mut(|request| matches!(raw::has_ended(request), Ok(false)));
            if self.requests.is_empty() || begun.elapsed() >= limit {
                break;
            }
            std::thread::yield_now();
        }
        self.requests.is_empty()
    }

    /// Whether MPI may still touch a buffer.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn place(&self) -> String {
        let ticket = &self.tickets[0];
        format!(
            "in {} (collective {} of {})",
            ticket.call.describe(),
            ticket.sequence,
            self.member.label
        )
    }

    fn refused(&self, fault: &raw::Fault, about: About) -> Error {
        let direction = if about.receives { "from" } else { "to" };
        let peer = self.member.members[about.way.peer];
        self.member
            .job
            .error(fault, &format!("{direction} rank {peer} {}", self.place()))
    }

    fn differs(&self, about: About, found: &str) -> Error {
        let ticket = &self.tickets[about.key.operation];
        let rank = |index: usize| self.member.members[index];
        let own = format!(
            "{}, and waits for {} bytes",
            ticket.call.describe(),
            about.bytes
        );
        Error::Mismatch {
            group: self.member.label.clone(),
            sequence: ticket.sequence,
            one: (rank(self.member.rank), own),
            other: (
                rank(about.way.peer),
                format!("something of which it sends {found}"),
            ),
        }
    }
}
