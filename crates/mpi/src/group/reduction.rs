//! `all_reduce`, `reduce_scatter` and `barrier`: every rank adds up the part that it owns, in the order of
//! ranks.
//!
//! Each rank sends the parts of the others to their owners, in blocks, so that adding one block overlaps with
//! moving the next. In an all-reduce the owners then send their sums to every rank. A rank moves twice its
//! buffer, less its own part. A ring moves the same amount, but takes twice as many steps as there are ranks,
//! where this takes two. Here the order of addends does not depend on a rank's place in a ring either. Small
//! buffers have few owners, or every rank sends its full buffer to all others.

use super::call::Operation;
use super::member::{Member, Ticket};
use super::staging::Room;
use super::wire::{Key, Way, Wire};
use hal::{Collective, DType, RawSlice, ReduceOp, Result};
use std::ops::Range;

/// Number of blocks in flight at a time.
const WINDOW: usize = 3;
/// Bytes of a block from one rank: long enough to make a message's fixed cost small in comparison.
const BLOCK_BYTES: usize = 256 << 10;
/// All blocks in flight fit into this size, unless there are very many ranks.
const ROOM_BYTES: usize = 16 << 20;
/// Parts smaller than this are not worth an owner of their own.
const PART_BYTES: usize = 2 << 10;
/// Up to this size, in a group this small, every rank sends its full buffer to all others: one step instead of
/// two.
const WHOLE_BYTES: usize = 4 << 10;
const WHOLE_SIZE: usize = 4;

/// A reduction in progress.
pub(super) struct Reduction<'a> {
    member: &'a Member,
    index: usize,
    tag: i32,
    op: ReduceOp,
    input: RawSlice,
    output: RawSlice,
    // For each rank, the position of its part in the input.
    parts: Vec<Range<usize>>,
    // Whether owners send their sums to all ranks.
    returns: bool,
    block: usize,
    // Taken when the reduction starts.
    room: Room,
    row_bytes: usize,
    // For each block, the number of its incomplete messages of addends and of sums.
    addends: Vec<usize>,
    sums: usize,
    begun: usize,
    reduced: usize,
}

impl<'a> Reduction<'a> {
    /// The reduction with that index in its call.
    pub(super) fn new(member: &'a Member, index: usize, ticket: &Ticket) -> Reduction<'a> {
        let size = member.size();
        let (input, output, op) = match &ticket.call {
            Collective::AllReduce { buffer, op } => (*buffer, None, *op),
            Collective::ReduceScatter { send, recv, op, .. } => (*send, Some(*recv), *op),
            // A barrier is a sum of arbitrary values, which no rank has before all have arrived.
            _ => (
                RawSlice {
                    addr: 0,
                    len: 1,
                    dtype: DType::U32,
                },
                None,
                ReduceOp::Sum,
            ),
        };
        let whole = output.is_none() && input.bytes() <= WHOLE_BYTES && size <= WHOLE_SIZE;
        let parts: Vec<Range<usize>> = match &ticket.call {
            Collective::ReduceScatter { counts, .. } => (0..size)
                .map(|rank| counts.before(rank)..counts.before(rank) + counts.of(rank))
                .collect(),
            _ if whole => vec![0..input.len; size],
            _ => owned(input, size),
        };
        let longest = parts.iter().map(Range::len).max().unwrap_or(0);
        let element = input.dtype.bytes();
        let block = (ROOM_BYTES / (WINDOW * size)).clamp(4 << 10, BLOCK_BYTES) / element;
        let blocks = longest.div_ceil(block);
        let rows = WINDOW.min(blocks) * size * block.min(longest).next_multiple_of(8) * element;
        let own = parts[member.rank].clone();
        Reduction {
            member,
            index,
            tag: ticket.tag,
            op,
            input,
            output: output.unwrap_or_else(|| input.part(own.start, own.len())),
            returns: output.is_none() && !whole,
            block: block.min(longest.max(1)).next_multiple_of(8),
            room: Room::default(),
            row_bytes: rows,
            addends: vec![0; blocks],
            sums: 0,
            parts,
            begun: 0,
            reduced: 0,
        }
    }

    // The range of a block within a rank's part.
    fn range(&self, rank: usize, block: usize) -> Range<usize> {
        let len = self.parts[rank].len();
        let start = (block * self.block).min(len);
        start..(start + self.block).min(len)
    }

    fn of_input(&self, rank: usize, block: usize) -> RawSlice {
        let range = self.range(rank, block);
        self.input
            .part(self.parts[rank].start + range.start, range.len())
    }

    // The room for a rank's addend to this rank's block.
    fn addend(&mut self, rank: usize, block: usize) -> RawSlice {
        if rank == self.member.rank {
            return self.of_input(rank, block);
        }
        let row = (block % WINDOW.min(self.addends.len())) * self.member.size() + rank;
        let len = self.range(self.member.rank, block).len();
        self.room.slice(
            row * self.block * self.input.dtype.bytes(),
            len,
            self.input.dtype,
        )
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.member.rank, self.member.size());
        (1..size).map(move |step| (rank + step) % size)
    }

    // Starts the receives of the next block's addends, and sends this rank's addends to the others.
    fn begin(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        let block = self.begun;
        self.begun += 1;
        let key = Key {
            operation: self.index,
            token: 2 * block,
        };
        for peer in self.others() {
            let way = Way {
                peer,
                tag: self.tag,
                indirect: false,
            };
            let (come, gone) = (self.addend(peer, block), self.of_input(peer, block));
            // SAFETY: a row of the room that no other block in flight uses.
            self.addends[block] += unsafe { wire.recv(key, come, way) }?;
            // SAFETY: the call's own slice, which the caller of `Call::run` guarantees. Only the sums of this
            // block write to it, and their receive starts once this message has completed.
            self.addends[block] += unsafe { wire.send(key, gone, way) }?;
        }
        Ok(())
    }

    // Adds what has arrived, block by block in their order, so that messages between two ranks keep their
    // order.
    fn advance(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        loop {
            while self.begun < self.addends.len() && self.begun < self.reduced + WINDOW {
                self.begin(wire)?;
            }
            if self.reduced == self.begun || self.addends[self.reduced] > 0 {
                return Ok(());
            }
            let block = self.reduced;
            self.reduced += 1;
            self.reduce(block);
            if self.returns {
                self.give_back(block, wire)?;
            }
        }
    }

    fn reduce(&mut self, block: usize) {
        let range = self.range(self.member.rank, block);
        if range.is_empty() {
            return;
        }
        let sources: Vec<RawSlice> = (0..self.member.size())
            .map(|rank| self.addend(rank, block))
            .collect();
        let out = self.output.part(range.start, range.len());
        // SAFETY: the addends have arrived; the output is this rank's own, with the same length and type. Where
        // it is also the rank's own addend, it is read and written in place, which `reduce` allows.
        unsafe { cpu::reduce(self.op, &sources, &[out]) };
    }

    // Sends the sums of this rank's block to the others, and starts the receives of theirs.
    fn give_back(&mut self, block: usize, wire: &mut Wire<'_>) -> Result<()> {
        let key = Key {
            operation: self.index,
            token: 2 * block + 1,
        };
        for peer in self.others() {
            let tag = self.tag + 1;
            let (come, gone) = (
                self.of_input(peer, block),
                self.of_input(self.member.rank, block),
            );
            // SAFETY: the call's own slice, which the caller of `Call::run` guarantees; what was sent from it
            // has left.
            self.sums += unsafe {
                wire.recv(
                    key,
                    come,
                    Way {
                        peer,
                        tag,
                        indirect: true,
                    },
                )
            }?;
            // SAFETY: as above; nothing writes to sums any more.
            self.sums += unsafe {
                wire.send(
                    key,
                    gone,
                    Way {
                        peer,
                        tag,
                        indirect: false,
                    },
                )
            }?;
        }
        Ok(())
    }
}

/// The parts of an all-reduce: equal except for the last ones, and none of them small.
fn owned(input: RawSlice, size: usize) -> Vec<Range<usize>> {
    let least = PART_BYTES / input.dtype.bytes();
    let part = input.len.div_ceil(size).max(least).next_multiple_of(16);
    (0..size)
        .map(|rank| (rank * part).min(input.len)..((rank + 1) * part).min(input.len))
        .collect()
}

impl Operation for Reduction<'_> {
    fn room_bytes(&self) -> usize {
        self.row_bytes
    }

    fn start(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        // A barrier's value is stored behind the rows.
        self.room = self.member.staging.take(self.row_bytes + 8);
        if self.input.addr == 0 {
            self.input = self.room.slice(self.row_bytes, 1, DType::U32);
            let own = self.parts[self.member.rank].clone();
            self.output = self.input.part(own.start, own.len());
        }
        self.advance(wire)
    }

    fn ended(&mut self, token: usize, wire: &mut Wire<'_>) -> Result<()> {
        if token % 2 == 1 {
            self.sums -= 1;
            return Ok(());
        }
        self.addends[token / 2] -= 1;
        if self.addends[token / 2] == 0 {
            self.advance(wire)
        } else {
            Ok(())
        }
    }

    fn is_done(&self) -> bool {
        self.reduced == self.addends.len() && self.sums == 0
    }
}

impl Drop for Reduction<'_> {
    fn drop(&mut self) {
        self.member
            .staging
            .give_back(std::mem::take(&mut self.room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_buffer_in_order_and_small_ones_have_few_owners() {
        for (len, size) in [(0, 3), (1, 4), (100, 64), (1_000_003, 7), (1 << 20, 8)] {
            let parts = owned(
                RawSlice {
                    addr: 64,
                    len,
                    dtype: DType::F32,
                },
                size,
            );
            let covered: Vec<usize> = parts.iter().cloned().flatten().collect();
            assert_eq!(covered, (0..len).collect::<Vec<_>>(), "{len} over {size}");
            let owners = parts.iter().filter(|part| !part.is_empty()).count();
            assert!(
                owners <= (4 * len).div_ceil(PART_BYTES),
                "{owners} owners of {len} elements"
            );
        }
    }
}
