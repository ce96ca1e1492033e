//! The caching allocator: freed blocks are kept by size and used again, in the order of streams.

use crate::{Event, MemoryKind, MemoryUse, Stream};
use hal::{Error, RawBuffer, Result};
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

pub(crate) struct Allocator {
    device: Arc<dyn hal::Device>,
    state: RefCell<PoolState>,
}

#[derive(Default)]
struct PoolState {
    free: Free,
    // While work is recorded: blocks that only the recording may use.
    private: Option<Private>,
    live: BTreeMap<usize, usize>,
    usage: MemoryUse,
}

// Free blocks by size; each with the events that must pass before its next use.
type Free = BTreeMap<usize, Vec<(RawBuffer, Vec<Event>)>>;

// The blocks that were taken since a recording began, and those of them that are free.
#[derive(Default)]
struct Private {
    taken: HashSet<u64>,
    free: Free,
}

// A block may be used for a request if at most this share of it is wasted.
const WASTE: usize = 8;

// Sizes are rounded so that requests that differ a little share blocks: to 1/8 of the next lower power of two.
fn rounded(bytes: usize) -> usize {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 16).max(256);
    bytes.div_ceil(step) * step
}

impl Allocator {
    pub(crate) fn new(device: Arc<dyn hal::Device>) -> Allocator {
        Allocator {
            device,
            state: RefCell::default(),
        }
    }

    /// A block of at least `bytes`, and whether it was used before. Work on `stream` may use it at once.
    pub(crate) fn take(
        &self,
        bytes: usize,
        kind: MemoryKind,
        stream: &Stream,
    ) -> Result<(RawBuffer, bool)> {
        let bytes = rounded(bytes);
        let cached = self.state.borrow_mut().reuse(bytes);
        let (block, reused) = match cached {
            Some((block, events)) => {
                if let Err(error) = events.iter().try_for_each(|event| stream.wait(event)) {
                    self.refuse(block, events);
                    return Err(error);
                }
                (block, true)
            }
            None => (self.fresh(bytes, stream)?, false),
        };
        let mut state = self.state.borrow_mut();
        state.enter(kind, block.bytes);
        if let Some(private) = &mut state.private {
            private.taken.insert(block.addr);
        }
        Ok((block, reused))
    }

    // Puts a cached block back whose uses `take` could not wait for.
    fn refuse(&self, block: RawBuffer, events: Vec<Event>) {
        let mut state = self.state.borrow_mut();
        match events.iter().all(|event| event.is_complete().is_ok()) {
            true => {
                state.usage.cached += block.bytes;
                state
                    .free
                    .entry(block.bytes)
                    .or_default()
                    .push((block, events));
            }
            false => state.lose(block),
        }
    }

    /// Takes a block back, which was taken as that kind, to be used again after `events`.
    pub(crate) fn give_back(&self, block: RawBuffer, kind: MemoryKind, events: Vec<Event>) {
        let mut state = self.state.borrow_mut();
        state.leave(kind, block.bytes);
        let PoolState { free, private, .. } = &mut *state;
        let private = private
            .as_mut()
            .filter(|private| private.taken.contains(&block.addr));
        let free = private.map_or(free, |private| &mut private.free);
        free.entry(block.bytes).or_default().push((block, events));
    }

    /// From now on blocks are taken for a recording: what is free of them is given to nobody else.
    pub(crate) fn begin_private(&self) {
        self.state.borrow_mut().private = Some(Private::default());
    }

    /// Ends that. Gives the free blocks, which stay in use until [`release`](Allocator::release).
    pub(crate) fn end_private(&self) -> Vec<RawBuffer> {
        let mut state = self.state.borrow_mut();
        let private = state.private.take().unwrap_or_default();
        let blocks: Vec<RawBuffer> = private
            .free
            .into_values()
            .flatten()
            .map(|(block, _)| block)
            .collect();
        for block in &blocks {
            state.usage.cached -= block.bytes;
            state.enter(MemoryKind::Buffers, block.bytes);
        }
        blocks
    }

    /// Takes the blocks of a recording back. Nothing but the compute stream uses them.
    pub(crate) fn release(&self, blocks: Vec<RawBuffer>) {
        blocks
            .into_iter()
            .for_each(|block| self.give_back(block, MemoryKind::Buffers, Vec::new()));
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        self.state.borrow().usage
    }

    pub(crate) fn reset_peak(&self) {
        self.state.borrow_mut().usage.reset_peak();
    }

    // One retry with the cache emptied; then the error, with what the cache and the tensors hold.
    fn fresh(&self, bytes: usize, stream: &Stream) -> Result<RawBuffer> {
        match self.device.allocate(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                // Blocks come without events for their uses on this stream: it orders their next uses, but not their end.
                stream.synchronize()?;
                self.empty_cache();
                self.device
                    .allocate(bytes)
                    .map_err(|error| self.explain(error))
            }
            other => other,
        }
    }

    fn empty_cache(&self) {
        let free = std::mem::take(&mut self.state.borrow_mut().free);
        for (block, events) in free.into_values().flatten() {
            let mut state = self.state.borrow_mut();
            state.usage.cached -= block.bytes;
            // All of them, whatever the first says.
            let failed = events
                .iter()
                .filter(|event| event.synchronize().is_err())
                .count();
            if failed > 0 {
                state.lose(block);
                continue;
            }
            // SAFETY: the block came from `allocate`, is in no list any more, and its last uses are over: the caller has
            // waited for the compute stream, or that has ended, and the events of the others have passed.
            unsafe { self.device.deallocate(block) }
        }
    }

    fn explain(&self, error: Error) -> Error {
        let state = self.state.borrow();
        match error {
            Error::OutOfMemory {
                device,
                asked,
                free,
                ..
            } => Error::OutOfMemory {
                device,
                asked,
                free,
                in_use: state.usage.in_use,
                cached: state.usage.cached,
                by_kind: state.by_kind(),
                largest: state
                    .live
                    .iter()
                    .rev()
                    .flat_map(|(&bytes, &n)| vec![bytes; n])
                    .take(3)
                    .collect(),
            },
            other => other,
        }
    }
}

// A free block for a request, out of the list.
fn fitting(free: &mut Free, bytes: usize) -> Option<(RawBuffer, Vec<Event>)> {
    let (_, blocks) = free
        .range_mut(bytes..=bytes + bytes / WASTE)
        .find(|(_, blocks)| !blocks.is_empty())?;
    // The last freed is the one most likely still in the processor's caches, unless its events are still open.
    let ready = |(_, events): &(RawBuffer, Vec<Event>)| {
        events
            .iter()
            .all(|event| event.is_complete().unwrap_or(false))
    };
    let index = blocks.iter().rposition(ready).unwrap_or(0);
    Some(blocks.remove(index))
}

impl PoolState {
    fn reuse(&mut self, bytes: usize) -> Option<(RawBuffer, Vec<Event>)> {
        let own = self
            .private
            .as_mut()
            .and_then(|private| fitting(&mut private.free, bytes));
        let found = own.or_else(|| fitting(&mut self.free, bytes))?;
        self.usage.cached -= found.0.bytes;
        Some(found)
    }

    // A block whose uses have an unknown end is neither used again nor unmapped; it counts as a buffer from now on.
    fn lose(&mut self, block: RawBuffer) {
        self.enter(MemoryKind::Buffers, block.bytes);
    }

    // What each kind that holds anything holds.
    fn by_kind(&self) -> Vec<(&'static str, usize)> {
        let kinds = MemoryKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), self.usage.of(kind).in_use));
        kinds.filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn enter(&mut self, kind: MemoryKind, bytes: usize) {
        *self.live.entry(bytes).or_default() += 1;
        self.usage.enter(kind, bytes);
    }

    fn leave(&mut self, kind: MemoryKind, bytes: usize) {
        let count = self
            .live
            .get_mut(&bytes)
            .expect("every live block was entered");
        *count -= 1;
        if *count == 0 {
            self.live.remove(&bytes);
        }
        self.usage.leave(kind, bytes);
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.empty_cache();
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocator({:?})", self.usage())
    }
}
