//! A tensor's memory, and which streams use it.

use crate::{Device, Event, MemoryKind, Stream};
use hal::{RawBuffer, Result};
use std::cell::RefCell;

/// A block of device memory, shared by the tensors that view it.
#[derive(Debug)]
pub(crate) struct Storage {
    device: Device,
    block: RawBuffer,
    kind: MemoryKind,
    uses: RefCell<Vec<Use>>,
}

/// The last use of a block by one stream.
#[derive(Debug)]
struct Use {
    stream: Stream,
    // `None` for a use of the main stream, whose event is recorded when another stream needs it, or for a use
    // that could not be recorded yet.
    event: Option<Event>,
    wrote: bool,
}

impl Storage {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Storage> {
        let (compute, kind) = (device.compute(), device.0.allocating.get());
        let (block, reused) = device.0.memory.take(bytes, kind, &compute)?;
        // A reused block counts as written by the compute stream, so that another stream cannot overtake its
        // earlier users.
        let uses = if reused {
            vec![Use {
                stream: compute,
                event: None,
                wrote: true,
            }]
        } else {
            Vec::new()
        };
        Ok(Storage {
            device: device.clone(),
            block,
            kind,
            uses: RefCell::new(uses),
        })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn block(&self) -> RawBuffer {
        self.block
    }

    /// Whether a stream other than this one uses the memory.
    pub(crate) fn has_use_beside(&self, stream: &Stream) -> bool {
        self.uses
            .borrow()
            .iter()
            .any(|earlier| !earlier.stream.is(stream))
    }

    /// Makes `stream` wait for the other streams' uses: always for writers, and before a write also for
    /// readers.
    ///
    /// The uses stay recorded, even if one of the waits is refused.
    pub(crate) fn order_after(&self, stream: &Stream, write: bool) -> Result<()> {
        let mut uses = self.uses.borrow_mut();
        for earlier in uses
            .iter_mut()
            .filter(|earlier| !earlier.stream.is(stream) && (write || earlier.wrote))
        {
            if earlier.event.is_none() {
                earlier.event = Some(earlier.stream.record()?);
            }
            if let Some(event) = &earlier.event {
                stream.wait(event)?;
            }
        }
        Ok(())
    }

    /// Records the end of every use so far.
    pub(crate) fn record_uses(&self) -> Result<()> {
        for earlier in self.uses.borrow_mut().iter_mut() {
            if earlier.event.is_none() {
                earlier.event = Some(earlier.stream.record()?);
            }
        }
        Ok(())
    }

    /// Records that `stream` has queued a use, which ends at `event`.
    ///
    /// A write that was queued after the uses of all other streams replaces them, if it `succeeded`.
    pub(crate) fn note_use(
        &self,
        stream: &Stream,
        event: Option<&Event>,
        wrote: bool,
        succeeded: bool,
    ) {
        let mut uses = self.uses.borrow_mut();
        if wrote && succeeded && uses.len() > 1 {
            uses.retain(|earlier| earlier.stream.is(stream));
        }
        match uses.iter_mut().find(|earlier| earlier.stream.is(stream)) {
            Some(own) => {
                own.event = event.cloned();
                own.wrote |= wrote;
                return;
            }
            None if wrote && succeeded => uses.clear(),
            None => {}
        }
        uses.push(Use {
            stream: stream.clone(),
            event: event.cloned(),
            wrote,
        });
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let mut events = Vec::new();
        for earlier in self.uses.get_mut().drain(..) {
            // Uses of the main stream need no event, because the block is next used on that stream or after it.
            match earlier.event {
                Some(event) => events.push(event),
                None if earlier.stream.is_main() => {}
                None => match earlier.stream.record() {
                    Ok(event) => events.push(event),
                    // The end of the use can no longer be known, so the block stays in use forever.
                    Err(_) => return,
                },
            }
        }
        self.device
            .0
            .memory
            .give_back(self.block, self.kind, events);
    }
}
