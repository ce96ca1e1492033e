//! The caching allocator: it keeps freed blocks by size and reuses them in the order of streams.

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

// The blocks taken since a recording began, and those of them that are free.
#[derive(Default)]
struct Private {
    taken: HashSet<u64>,
    free: Free,
}

// A block may serve a request if at most this fraction of it is wasted.
const WASTE: usize = 8;

// Sizes are rounded up to multiples of 1/8 of the next lower power of two, so that slightly different requests
// share blocks.
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

    /// A block of at least `bytes`, and whether it is reused. Work on `stream` may use it at once.
    pub(crate) fn take(
        &self,
        bytes: usize,
        kind: MemoryKind,
        stream: &Stream,
    ) -> Result<(RawBuffer, bool)> {
        let bytes = rounded(bytes);
        // Where the host computes, it would wait itself: for a message that leaves, perhaps, whose receiver waits for this rank.
        let can_wait = !self.device.capabilities().host_memory;
        let cached = self.state.borrow_mut().reuse(bytes, can_wait);
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

    // Returns a cached block for whose uses `take` could not wait.
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

    /// Returns a block that was taken as this kind, for reuse after `events`.
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

    /// From now on blocks are taken for a recording, and its free blocks go to nobody else.
    pub(crate) fn begin_private(&self) {
        self.state.borrow_mut().private = Some(Private::default());
    }

    /// Ends that state, and returns the free blocks, which stay in use until [`release`](Allocator::release).
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

    /// Takes back the blocks of a recording. Only the compute stream uses them.
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

    /// How many blocks of each size it has, in use or free.
    pub(crate) fn sizes(&self) -> BTreeMap<usize, usize> {
        let state = self.state.borrow();
        let mut sizes = state.live.clone();
        for (&bytes, blocks) in state.free.iter().filter(|(_, blocks)| !blocks.is_empty()) {
            *sizes.entry(bytes).or_default() += blocks.len();
        }
        sizes
    }

    /// Takes the blocks that are missing to these numbers, as long as the device has memory for them.
    pub(crate) fn reserve(&self, sizes: &BTreeMap<usize, usize>) -> Result<()> {
        let own = self.sizes();
        for (&bytes, &count) in sizes {
            for _ in own.get(&bytes).copied().unwrap_or(0)..count {
                let block = match self.device.allocate(bytes) {
                    // What needs the memory will say so.
                    Err(Error::OutOfMemory { .. }) => return Ok(()),
                    other => other?,
                };
                let mut state = self.state.borrow_mut();
                state.usage.cached += block.bytes;
                state
                    .free
                    .entry(bytes)
                    .or_default()
                    .push((block, Vec::new()));
            }
        }
        Ok(())
    }

    // Retries once with the cache emptied; then returns the error, with what the cache and the tensors hold.
    fn fresh(&self, bytes: usize, stream: &Stream) -> Result<RawBuffer> {
        match self.device.allocate(bytes) {
            Err(Error::OutOfMemory { .. }) => {
                // Blocks have no events for their uses on this stream: the stream orders their next uses, but
                // does not reveal their end.
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
            // Waits for all of them, even if the first fails.
            let failed = events
                .iter()
                .filter(|event| event.synchronize().is_err())
                .count();
            if failed > 0 {
                state.lose(block);
                continue;
            }
            // SAFETY: the block came from `allocate` and is in no list any more. Its last uses are over, as the
            // events of other streams have passed and somebody has waited for the compute stream; or that wait has failed.
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

// Removes a free block for a request from the list: one that may be used now, or another if work can wait for its uses.
fn fitting(free: &mut Free, bytes: usize, can_wait: bool) -> Option<(RawBuffer, Vec<Event>)> {
    // The block freed last is most likely still in the processor's caches, unless its events are still open.
    let ready = |(_, events): &(RawBuffer, Vec<Event>)| {
        events
            .iter()
            .all(|event| event.is_complete().unwrap_or(false))
    };
    let sizes = free.range_mut(bytes..=bytes + bytes / WASTE);
    let mut blocks = sizes
        .map(|(_, blocks)| blocks)
        .filter(|blocks| !blocks.is_empty());
    blocks.find_map(|blocks| {
        let ready = blocks.iter().rposition(ready);
        let index = ready.or(can_wait.then_some(0))?;
        Some(blocks.remove(index))
    })
}

impl PoolState {
    fn reuse(&mut self, bytes: usize, can_wait: bool) -> Option<(RawBuffer, Vec<Event>)> {
        let own = self
            .private
            .as_mut()
            .and_then(|private| fitting(&mut private.free, bytes, can_wait));
        let found = own.or_else(|| fitting(&mut self.free, bytes, can_wait))?;
        self.usage.cached -= found.0.bytes;
        Some(found)
    }

    // A block whose uses have no known end is neither reused nor unmapped; from now on it counts as a buffer.
    fn lose(&mut self, block: RawBuffer) {
        self.enter(MemoryKind::Buffers, block.bytes);
    }

    // The bytes that each kind holds, without empty kinds.
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
