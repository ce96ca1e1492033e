//! Which operations of a call are in progress.
//!
//! Those that only move data all start at once. Reductions take memory for addends, so they start in their order, and only as many
//! as have room in a processor's cache: a step's gradients are one call of very many reductions, and all at once they would take their
//! addends to main memory and back.
//!
//! Ranks that have other reductions in progress do not wait for each other for ever: a rank starts its first unfinished one whatever
//! the room, so all have started the earliest that is unfinished anywhere.

use super::call::Operation;
use super::wire::{Key, Wire};
use hal::Result;
use std::collections::VecDeque;

/// Reductions in progress take no more memory than this for their addends, unless one alone does.
const CACHED_BYTES: usize = 2 << 20;

/// The operations of one call, from their start to their end.
pub(super) struct Progress<'a> {
    // None once it is done.
    operations: Vec<Option<Box<dyn Operation + 'a>>>,
    waiting: VecDeque<usize>,
    unfinished: usize,
    room_bytes: usize,
}

impl<'a> Progress<'a> {
    /// Operations in the order of their call, none of them started.
    pub(super) fn new(operations: Vec<Box<dyn Operation + 'a>>) -> Progress<'a> {
        Progress {
            unfinished: operations.len(),
            waiting: VecDeque::new(),
            operations: operations.into_iter().map(Some).collect(),
            room_bytes: 0,
        }
    }

    /// Whether all are done.
    pub(super) fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Starts what can start at once.
    pub(super) fn start(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        for index in 0..self.operations.len() {
            match self.room_of(index) {
                0 => self.begin(index, wire)?,
                _ => self.waiting.push_back(index),
            }
        }
        self.fill(wire)
    }

    /// One of the messages of an operation has completed.
    pub(super) fn ended(&mut self, key: Key, wire: &mut Wire<'_>) -> Result<()> {
        if let Some(operation) = &mut self.operations[key.operation] {
            operation.ended(key.token, wire)?;
        }
        if self.release(key.operation) {
            self.fill(wire)?;
        }
        Ok(())
    }

    // Starts waiting operations as far as there is room.
    fn fill(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        while let Some(&index) = self.waiting.front() {
            let room_bytes = self.room_bytes + self.room_of(index);
            if self.room_bytes > 0 && room_bytes > CACHED_BYTES {
                break;
            }
            self.waiting.pop_front();
            self.room_bytes = room_bytes;
            self.begin(index, wire)?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, wire: &mut Wire<'_>) -> Result<()> {
        if let Some(operation) = &mut self.operations[index] {
            operation.start(wire)?;
        }
        self.release(index);
        Ok(())
    }

    fn room_of(&self, index: usize) -> usize {
        let operation = self.operations[index].as_ref();
        operation.map_or(0, |operation| operation.room_bytes())
    }

    // Ends an operation that is done, so that the next one has its memory; whether it is.
    fn release(&mut self, index: usize) -> bool {
        let slot = &mut self.operations[index];
        let Some(done) = slot.take_if(|operation| operation.is_done()) else {
            return false;
        };
        self.room_bytes -= done.room_bytes();
        self.unfinished -= 1;
        true
    }
}
