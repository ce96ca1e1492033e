//! `all_gather`, `all_to_all`, `send` and `recv`: all messages move at once, directly from source to
//! destination.

use super::call::Operation;
use super::member::Ticket;
use super::wire::{Key, Way, Wire};
use hal::{Collective, RawSlice, Result};

/// An operation whose messages need no order.
pub(super) struct Messages<'a> {
    index: usize,
    ticket: &'a Ticket,
    left: usize,
}

impl<'a> Messages<'a> {
    /// The operation with that index in its call.
    pub(super) fn new(index: usize, ticket: &'a Ticket) -> Messages<'a> {
        Messages {
            index,
            ticket,
            left: 0,
        }
    }

    fn send(&mut self, wire: &mut Wire<'_>, slice: RawSlice, peer: usize) -> Result<()> {
        let key = Key {
            operation: self.index,
            token: 0,
        };
        let way = Way {
            peer,
            tag: self.ticket.tag,
            indirect: false,
        };
        // SAFETY: a part of the call's own slices, which the caller of `Call::run` guarantees; nothing writes
        // to a slice being sent.
        self.left += unsafe { wire.send(key, slice, way) }?;
        Ok(())
    }

    fn recv(&mut self, wire: &mut Wire<'_>, slice: RawSlice, peer: usize) -> Result<()> {
        let key = Key {
            operation: self.index,
            token: 0,
        };
        let way = Way {
            peer,
            tag: self.ticket.tag,
            indirect: false,
        };
        // SAFETY: a part of the call's own slices, which the caller of `Call::run` guarantees; parts of
        // different peers are disjoint.
        self.left += unsafe { wire.recv(key, slice, way) }?;
        Ok(())
    }
}

impl Operation for Messages<'_> {
    fn start(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        let (rank, size) = (wire.member().rank, wire.member().size());
        // Each rank begins with its neighbour, so that they do not all send to the same rank first.
        let others = (1..size).map(|step| (rank + step) % size);
        match &self.ticket.call {
            Collective::AllGather { send, recv, counts } => {
                let part = |of: usize| recv.part(counts.before(of), counts.of(of));
                copy(*send, part(rank));
                for peer in others {
                    self.recv(wire, part(peer), peer)?;
                    self.send(wire, *send, peer)?;
                }
            }
            Collective::AllToAll { send, recv } => {
                let part =
                    |of: RawSlice, rank: usize| of.part(rank * (of.len / size), of.len / size);
                copy(part(*send, rank), part(*recv, rank));
                for peer in others {
                    self.recv(wire, part(*recv, peer), peer)?;
                    self.send(wire, part(*send, peer), peer)?;
                }
            }
            Collective::Send { buffer, to } => self.send(wire, *buffer, *to)?,
            Collective::Recv { buffer, from } => self.recv(wire, *buffer, *from)?,
            _ => {}
        }
        Ok(())
    }

    fn ended(&mut self, _token: usize, _wire: &mut Wire<'_>) -> Result<()> {
        self.left -= 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

// Copies this rank's own part; does nothing if it is already in place.
fn copy(from: RawSlice, to: RawSlice) {
    assert!(
        from.len == to.len && from.dtype == to.dtype,
        "a bug: copy of {from:?} to {to:?}"
    );
    if from.addr != to.addr && from.len > 0 {
        // SAFETY: both are parts of the call's own slices, live during the call, of equal size and disjoint.
        unsafe {
            std::ptr::copy_nonoverlapping(from.addr as *const u8, to.addr as *mut u8, from.bytes())
        };
    }
}
