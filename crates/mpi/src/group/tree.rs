//! `broadcast`: a tree in which each rank that has the buffer sends it to one that does not.

use super::call::Operation;
use super::member::Member;
use super::wire::{Key, Way, Wire};
use hal::{RawSlice, Result};

/// A broadcast in progress.
pub(super) struct Tree {
    index: usize,
    tag: i32,
    buffer: RawSlice,
    parent: Option<Way>,
    children: Vec<usize>,
    // Number of incomplete messages from above and downwards.
    above: usize,
    below: usize,
}

impl Tree {
    /// The broadcast of `root` with that index in its call.
    pub(super) fn new(
        member: &Member,
        index: usize,
        tag: i32,
        buffer: RawSlice,
        root: usize,
    ) -> Tree {
        let size = member.size();
        // Counted from the root, the parent of a rank lacks the highest bit of its number.
        let place = (member.rank + size - root) % size;
        let absolute = |place: usize| (place + root) % size;
        let parent = place.checked_ilog2().map(|bit| place - (1 << bit));
        let way = |parent: usize| Way {
            peer: absolute(parent),
            tag,
            indirect: parent != 0,
        };
        let first_bit = place.checked_ilog2().map_or(0, |bit| bit + 1);
        let bits = (first_bit..usize::BITS)
            .map(|bit| 1usize << bit)
            .take_while(|bit| *bit < size);
        let children = bits
            .map(|bit| place + bit)
            .filter(|child| *child < size)
            .map(absolute)
            .collect();
        Tree {
            index,
            tag,
            buffer,
            parent: parent.map(way),
            children,
            above: 0,
            below: 0,
        }
    }

    fn send(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        let key = Key {
            operation: self.index,
            token: 0,
        };
        for peer in std::mem::take(&mut self.children) {
            let way = Way {
                peer,
                tag: self.tag,
                indirect: false,
            };
            // SAFETY: the call's own slice, which the caller of `Call::run` guarantees; it has arrived, and
            // nothing writes to it any more.
            self.below += unsafe { wire.send(key, self.buffer, way) }?;
        }
        Ok(())
    }
}

impl Operation for Tree {
    fn start(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        let Some(way) = self.parent else {
            return self.send(wire);
        };
        let key = Key {
            operation: self.index,
            token: 1,
        };
        // SAFETY: the call's own slice, which the caller of `Call::run` guarantees; it is not sent before it
        // has arrived.
        self.above += unsafe { wire.recv(key, self.buffer, way) }?;
        Ok(())
    }

    fn ended(&mut self, token: usize, wire: &mut Wire<'_>) -> Result<()> {
        if token == 0 {
            self.below -= 1;
            return Ok(());
        }
        self.above -= 1;
        if self.above == 0 {
            self.send(wire)
        } else {
            Ok(())
        }
    }

    fn is_done(&self) -> bool {
        self.above == 0 && self.below == 0
    }
}
