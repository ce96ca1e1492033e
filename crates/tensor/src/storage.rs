//! A tensor's memory, and which streams use it.

use crate::{Device, Event, MemoryKind, Stream};
use hal::{Error, RawBuffer, Result};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

/// A block of device memory, shared by the tensors that view it.
#[derive(Debug)]
pub(crate) struct Storage {
    device: Device,
    // As many as were asked for; the block may be larger.
    bytes: usize,
    // No memory while the elements are away.
    block: Cell<RawBuffer>,
    away: RefCell<Option<Rc<dyn Keeper>>>,
    // Counts writes.
    version: Cell<u64>,
    // Whether recorded work knows the block's address.
    is_pinned: Cell<bool>,
    // Whether the host edits the elements at the moment: then nothing else may use them.
    is_edited: Cell<bool>,
    kind: MemoryKind,
    owner: RefCell<Owner>,
    uses: RefCell<Vec<Use>>,
}

/// One who has the elements of storages without memory.
pub(crate) trait Keeper: fmt::Debug {
    /// Brings them back for a use that nobody has foreseen. [`failure`](Keeper::failure) has the error.
    fn bring_back_at_last(self: Rc<Self>);

    /// Why elements are not back.
    fn failure(&self) -> Error;
}

/// The owner of a storage's block.
#[derive(Debug)]
pub(crate) enum Owner {
    /// The device's allocator.
    Allocator,
    /// Something that frees the memory when it is dropped.
    Foreign(Box<dyn Any>),
    /// A caller of [`Tensor::lend`](crate::Tensor::lend), to whom the memory returns.
    Lender,
    /// One who lent it to be read only.
    Reader,
    /// Somebody who keeps it until all work queued on it has run, and does not want to be waited for.
    Elsewhere,
    /// Nobody here: the memory has gone back.
    Gone,
}

/// The block of a storage whose elements are away.
const NO_BLOCK: RawBuffer = RawBuffer { addr: 0, bytes: 0 };

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
        let kind = device.0.allocating.get();
        let (block, uses) = allocate(device, bytes, kind)?;
        Ok(Storage {
            device: device.clone(),
            bytes,
            block: Cell::new(block),
            away: RefCell::default(),
            version: Cell::new(0),
            is_pinned: Cell::new(false),
            is_edited: Cell::new(false),
            kind,
            owner: RefCell::new(Owner::Allocator),
            uses: RefCell::new(uses),
        })
    }

    /// Memory that an owner keeps, or that a caller lends until [`end_loan`](Storage::end_loan). It never leaves, and
    /// counts as no memory of the device's.
    ///
    /// # Safety
    /// The device [works on the host's memory](Device::works_on_the_host), or `block` is its own memory. The block is live, and nothing
    /// else accesses it, until the owner is dropped or the loan has ended.
    pub(crate) unsafe fn foreign(device: &Device, block: RawBuffer, owner: Owner) -> Storage {
        Storage {
            device: device.clone(),
            bytes: block.bytes,
            block: Cell::new(block),
            away: RefCell::default(),
            version: Cell::new(0),
            is_pinned: Cell::new(true),
            is_edited: Cell::new(false),
            kind: MemoryKind::default(),
            owner: RefCell::new(owner),
            uses: RefCell::default(),
        }
    }

    /// Waits for all uses and takes the memory from the tensors that still view it: using one is an error from now on.
    ///
    /// Returns the owner, if there is one, and the failure of a stream, if any. Even then the memory is unused on a device with
    /// [`host_memory`](hal::Capabilities::host_memory).
    pub(crate) fn end_loan(&self) -> (Option<Box<dyn Any>>, Result<()>) {
        let outcome = self.wait_for_uses();
        self.block.set(NO_BLOCK);
        let owner = match self.owner.replace(Owner::Gone) {
            Owner::Foreign(owner) => Some(owner),
            _ => None,
        };
        (owner, outcome)
    }

    /// Whether the memory's owner is of this type.
    pub(crate) fn is_owned_by<T: Any>(&self) -> bool {
        matches!(&*self.owner.borrow(), Owner::Foreign(owner) if owner.is::<T>())
    }

    // Waits, on the host, until no stream uses the memory. It waits for all of them, even if the first has failed.
    fn wait_for_uses(&self) -> Result<()> {
        let uses = std::mem::take(&mut *self.uses.borrow_mut());
        let waits = uses.iter().map(|earlier| match &earlier.event {
            Some(event) => event.synchronize(),
            None => earlier.stream.synchronize(),
        });
        waits.fold(Ok(()), Result::and)
    }

    /// Waits, on the host, until no stream uses the memory. Until [`end_edit`](Storage::end_edit) the host alone has it: any use is
    /// an error.
    ///
    /// # Errors
    /// The failure of a stream that uses it; why the elements are not there, if they are away.
    pub(crate) fn begin_edit(&self) -> Result<()> {
        self.order_after(&self.device.compute(), true)?;
        let mut uses = self.uses.borrow_mut();
        for earlier in uses.iter_mut() {
            match &earlier.event {
                Some(event) => event.synchronize()?,
                None => earlier.stream.synchronize()?,
            }
        }
        uses.clear();
        self.version.set(self.version.get() + 1);
        self.is_edited.set(true);
        Ok(())
    }

    /// Gives the memory back to the streams.
    pub(crate) fn end_edit(&self) {
        self.is_edited.set(false);
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn block(&self) -> RawBuffer {
        self.block.get()
    }

    /// Bytes of the elements.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The purpose of the memory.
    pub(crate) fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Who has the elements, if they are away.
    pub(crate) fn away(&self) -> Option<Rc<dyn Keeper>> {
        self.away.borrow().clone()
    }

    /// Keeps the elements where they are for ever.
    pub(crate) fn pin(&self) {
        self.is_pinned.set(true);
    }

    /// Whether the block is the device's allocator's.
    pub(crate) fn is_of_allocator(&self) -> bool {
        matches!(*self.owner.borrow(), Owner::Allocator)
    }

    /// Whether the block is there as long as the storage.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(&*self.owner.borrow(), Owner::Allocator | Owner::Foreign(_))
    }

    /// Whether the elements may leave.
    pub(crate) fn may_leave(&self) -> bool {
        !self.is_pinned.get() && !self.is_edited.get() && self.away.borrow().is_none()
    }

    /// A number that each write changes.
    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Forgets the writes since this version, which have brought back what the elements were then.
    pub(crate) fn restore_version(&self, version: u64) {
        self.version.set(version);
    }

    /// Frees the block, whose elements are now with `keeper`.
    pub(crate) fn leave(&self, keeper: Rc<dyn Keeper>) {
        self.free();
        *self.away.borrow_mut() = Some(keeper);
    }

    /// Takes a block for elements that come back.
    ///
    /// # Errors
    /// [`Error::Invalid`] while work is recorded; otherwise as [`new`](Storage::new).
    pub(crate) fn come_back(&self) -> Result<()> {
        self.device.not_recorded("a saved tensor")?;
        let (block, uses) = allocate(&self.device, self.bytes, self.kind)?;
        self.block.set(block);
        *self.uses.borrow_mut() = uses;
        *self.away.borrow_mut() = None;
        Ok(())
    }

    // Gives the block back, for reuse after all its uses.
    fn free(&self) {
        let block = self.block.replace(NO_BLOCK);
        let mut events = Vec::new();
        for earlier in self.uses.borrow_mut().drain(..) {
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
        self.device.0.memory.give_back(block, self.kind, events);
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
    ///
    /// # Errors
    /// Those of the waits; why the elements are not back, if they are away.
    pub(crate) fn order_after(&self, stream: &Stream, write: bool) -> Result<()> {
        if let Some(keeper) = &*self.away.borrow() {
            return Err(keeper.failure());
        }
        if self.is_edited.get() {
            let found = format!("{} bytes that the host edits", self.bytes);
            return Err(Error::invalid("a tensor", found, "the end of the edit"));
        }
        match &*self.owner.borrow() {
            Owner::Gone => {
                let found = format!("{} bytes whose owner has them back", self.bytes);
                return Err(Error::invalid("a tensor", found, "one that has memory"));
            }
            Owner::Reader if write => {
                let found = format!("a write to {} bytes that were lent to be read", self.bytes);
                return Err(Error::invalid(
                    "a tensor",
                    found,
                    "memory that may be written",
                ));
            }
            _ => {}
        }
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
        if wrote {
            self.version.set(self.version.get() + 1);
        }
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
        if let Owner::Elsewhere = self.owner.get_mut() {
            return;
        }
        if !matches!(self.owner.get_mut(), Owner::Allocator) {
            let (owner, outcome) = self.end_loan();
            // Only on a device of another memory can work that failed still touch it: it is kept for ever.
            if outcome.is_err() && !self.device.capabilities().host_memory {
                std::mem::forget(owner);
            }
            return;
        }
        if self.away.get_mut().is_none() {
            self.free();
        }
    }
}

// A reused block counts as written by the compute stream, so that another stream cannot overtake its earlier users.
fn allocate(device: &Device, bytes: usize, kind: MemoryKind) -> Result<(RawBuffer, Vec<Use>)> {
    let compute = device.compute();
    let (block, reused) = device.0.memory.take(bytes, kind, &compute)?;
    let written = Use {
        stream: compute,
        event: None,
        wrote: true,
    };
    Ok((block, reused.then_some(written).into_iter().collect()))
}
