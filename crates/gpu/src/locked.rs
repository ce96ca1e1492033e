//! Memory of the process that is pinned for a device, so that copies need no block of ours in between.

use crate::{context::Context, table::pointer};
use hal::{PageLock, RawBuffer, Result, lock};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The pinned ranges of a context, by their first address.
#[derive(Debug, Default)]
pub(crate) struct LockedPages(Mutex<BTreeMap<u64, Range>>);

#[derive(Debug)]
struct Range {
    bytes: usize,
    // Whether a copy has failed, so that nobody knows its end.
    is_lost: bool,
}

impl LockedPages {
    /// Whether these bytes lie in one range.
    pub(crate) fn contain(&self, bytes: &[u8]) -> bool {
        let (start, ranges) = (bytes.as_ptr().addr() as u64, lock(&self.0));
        let before = ranges.range(..=start).next_back();
        before.is_some_and(|(first, range)| {
            let offset = (start - first) as usize;
            range.bytes >= offset && range.bytes - offset >= bytes.len()
        })
    }

    /// Takes note that a copy to or from a place has failed.
    pub(crate) fn lose(&self, place: *const u8) {
        let mut ranges = lock(&self.0);
        if let Some((_, range)) = ranges.range_mut(..=place.addr() as u64).next_back() {
            range.is_lost = true;
        }
    }

    fn add(&self, pages: RawBuffer) {
        let (bytes, is_lost) = (pages.bytes, false);
        lock(&self.0).insert(pages.addr, Range { bytes, is_lost });
    }

    fn is_idle(&self, address: u64) -> bool {
        lock(&self.0)
            .get(&address)
            .is_none_or(|range| !range.is_lost)
    }

    fn remove(&self, address: u64) {
        lock(&self.0).remove(&address);
    }
}

/// Pins pages, if the system lets it.
///
/// # Safety
/// As [`hal::Device::lock_pages`].
pub(crate) unsafe fn lock_pages(
    context: &Arc<Context>,
    pages: RawBuffer,
) -> Result<Option<Box<dyn PageLock>>> {
    let address = pointer(pages.addr).cast();
    // SAFETY: the caller vouches for the pages until the lock's end, which ends this.
    let is_locked = context.call(|runtime| unsafe { runtime.lock_pages(address, pages.bytes) })?;
    if !is_locked {
        return Ok(None);
    }
    context.locked.add(pages);
    Ok(Some(Box::new(Lock {
        context: context.clone(),
        address: pages.addr,
    })))
}

#[derive(Debug)]
struct Lock {
    context: Arc<Context>,
    address: u64,
}

impl PageLock for Lock {
    fn is_idle(&self) -> bool {
        self.context.locked.is_idle(self.address)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Memory with a copy whose end nobody knows stays as it is, and with it the pages.
        if self.is_idle() {
            let address = pointer(self.address).cast();
            // SAFETY: pinned by `lock_pages`, once; every copy has ended before the call that made it returned.
            self.context
                .release(|runtime| unsafe { runtime.unlock_pages(address) });
        }
        self.context.locked.remove(self.address);
    }
}
