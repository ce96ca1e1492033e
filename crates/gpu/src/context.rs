//! A device's context: every call goes through it, and it holds what outlives single objects.

use crate::{
    locked::LockedPages,
    table::{Fault, Handle, Outcome, Properties, Runtime, Tables},
    wait::Watch,
};
use hal::{DeviceId, Error, Result, lock};
use std::{
    ffi::c_int,
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// An open context, shared by all objects of one rank on its device.
pub(crate) struct Context {
    pub(crate) tables: Arc<Tables>,
    pub(crate) id: DeviceId,
    pub(crate) properties: Properties,
    /// The vendor's number of the device. Staged ranks, each with an id of its own, may share it.
    pub(crate) ordinal: usize,
    /// Memory of the process that is pinned.
    pub(crate) locked: LockedPages,
    // The same device in the runtime's own numbers.
    device: c_int,
    handle: Handle,
    // Events that are not in use: making an event costs more than recording it.
    events: Mutex<Vec<Handle>>,
    failure: Mutex<Option<Error>>,
    watches: Mutex<Vec<Weak<dyn Watch>>>,
}

impl Context {
    /// Opens device `ordinal`, known as `id`.
    ///
    /// # Errors
    /// [`Error::Vendor`].
    pub(crate) fn open(tables: Arc<Tables>, id: DeviceId, ordinal: usize) -> Result<Arc<Context>> {
        let open = || {
            let device = tables.runtime.device(ordinal)?;
            let properties = tables.runtime.properties(device)?;
            Ok((device, properties, tables.runtime.open(device)?))
        };
        let (device, properties, handle) = open().map_err(|fault| vendor(id, fault))?;
        let (locked, events, failure, watches) = Default::default();
        Ok(Arc::new(Context {
            tables,
            id,
            properties,
            ordinal,
            locked,
            device,
            handle,
            events,
            failure,
            watches,
        }))
    }

    /// Runs `work` with the thread bound to this context.
    ///
    /// # Errors
    /// [`Error::Vendor`].
    pub(crate) fn call<T>(&self, work: impl FnOnce(&dyn Runtime) -> Outcome<T>) -> Result<T> {
        self.outcome(work).map_err(|fault| vendor(self.id, fault))
    }

    /// As [`call`](Context::call), with the vendor's own error.
    pub(crate) fn outcome<T>(&self, work: impl FnOnce(&dyn Runtime) -> Outcome<T>) -> Outcome<T> {
        let runtime = &*self.tables.runtime;
        // SAFETY: the context is open until it is dropped.
        unsafe { runtime.bind(self.handle) }?;
        work(runtime)
    }

    /// Binds the calling thread to this context, for libraries that take the device from the thread.
    pub(crate) fn bind(&self) -> Result<()> {
        self.call(|_| Ok(()))
    }

    /// Reserves device memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the bytes asked for and the bytes free; [`Error::Vendor`].
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        self.outcome(|runtime| runtime.allocate(bytes))
            .map_err(|fault| match fault.out_of_memory {
                true => self.out_of_memory(bytes),
                false => vendor(
                    self.id,
                    Fault {
                        reason: format!("{} ({bytes} bytes)", fault.reason),
                        ..fault
                    },
                ),
            })
    }

    /// Frees memory, unless the device has failed: nobody knows whether the work of a failed device has ended, so its memory lives
    /// as long as the context. Returns whether it did.
    ///
    /// # Safety
    /// `address` came from [`allocate`](Context::allocate) and is freed once; if no wait has failed, its last use has ended.
    pub(crate) unsafe fn free(&self, address: u64) -> bool {
        let is_known = self.check().is_ok();
        if is_known {
            // SAFETY: guaranteed by the caller, as the device has not failed.
            self.release(|runtime| unsafe { runtime.free(address) });
        }
        is_known
    }

    fn out_of_memory(&self, asked: usize) -> Error {
        let free = self
            .outcome(|runtime| runtime.memory())
            .map_or(0, |(free, _)| free);
        Error::OutOfMemory {
            device: self.id,
            asked,
            free,
            in_use: 0,
            cached: 0,
            largest: Box::default(),
            by_kind: Vec::new(),
        }
    }

    /// Runs `work` that releases something, as drops do. The device's next fallible call reports a failure.
    ///
    /// Such calls take addresses and handles, which determine their device. So they are tried even if the thread cannot
    /// be bound.
    pub(crate) fn release(&self, work: impl FnOnce(&dyn Runtime) -> Outcome<()>) {
        let bound = self.outcome(|_| Ok(()));
        if let Err(fault) = bound.and(work(&*self.tables.runtime)) {
            self.fail(vendor(self.id, fault));
        }
    }

    /// Ends the use of this device; the first error stays.
    ///
    /// This also ends the work that waits for other ranks: freeing memory would otherwise wait for that work.
    pub(crate) fn fail(&self, error: Error) {
        let is_first = {
            let mut failure = lock(&self.failure);
            let is_first = failure.is_none();
            failure.get_or_insert(error);
            is_first
        };
        if is_first {
            // All at once: ending a communicator waits for its work, which may be queued behind that of another one.
            std::thread::scope(|scope| {
                for watch in self.live_watches() {
                    let ends = watch.clone();
                    // If no thread can be started, this one does it.
                    if std::thread::Builder::new()
                        .spawn_scoped(scope, move || ends.end())
                        .is_err()
                    {
                        watch.end();
                    }
                }
            });
        }
    }

    /// Fails once [`fail`](Context::fail) has been called.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }

    /// Lets `watch` end the host's waits.
    pub(crate) fn add_watch(&self, watch: Weak<dyn Watch>) {
        lock(&self.watches).push(watch);
    }

    /// Asks all watches whether a wait of this length may continue.
    pub(crate) fn watch(&self, waited: Duration) -> Result<()> {
        self.check()?;
        let outcome = self
            .live_watches()
            .iter()
            .try_for_each(|watch| watch.check(waited));
        outcome.inspect_err(|error| self.fail(error.clone()))
    }

    /// Waits for the work that waits for other ranks. The vendors' call that frees memory waits for it too, but without
    /// a limit.
    pub(crate) fn land(&self) {
        if self.check().is_ok()
            && let Err(error) = self
                .live_watches()
                .iter()
                .try_for_each(|watch| watch.land())
        {
            self.fail(error);
        }
    }

    fn live_watches(&self) -> Vec<Arc<dyn Watch>> {
        let mut watches = lock(&self.watches);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.iter().filter_map(Weak::upgrade).collect()
    }

    /// An event that is in no use.
    pub(crate) fn take_event(&self) -> Result<Handle> {
        let pooled = lock(&self.events).pop();
        pooled.map_or_else(|| self.call(|runtime| runtime.create_event()), Ok)
    }

    /// Returns an event to the pool. Waits that were queued on it keep the point that it had then.
    pub(crate) fn give_event(&self, event: Handle) {
        lock(&self.events).push(event);
    }
}

/// Converts a fault into the seam's error.
pub(crate) fn vendor(device: DeviceId, fault: Fault) -> Error {
    Error::Vendor {
        call: fault.call.into(),
        code: fault.code,
        reason: fault.reason,
        device,
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let events = std::mem::take(&mut *lock(&self.events));
        for event in events {
            // SAFETY: the pool's events are live, and nothing else holds them.
            self.release(|runtime| unsafe { runtime.destroy_event(event) });
        }
        // SAFETY: opened once by `open`; everything made in it holds this `Context`, and has been dropped.
        let _ = unsafe { self.tables.runtime.close(self.device) };
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.id)
    }
}
