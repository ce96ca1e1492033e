//! Memory of the host in whole pages, which a device may lock so that it copies them without the host's help.

use crate::{Device, RawBuffer, Result};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
};

/// What keeps pages where they are, until it is dropped.
pub trait PageLock: Send + Sync + fmt::Debug {
    /// Whether no copy of the device can touch the pages any more. On a device that has failed nobody may know; then the memory
    /// must stay allocated.
    fn is_idle(&self) -> bool;
}

/// Zeros of the host's memory, aligned to 64 bytes at least, in pages that hold nothing else.
pub struct HostBlock {
    lock: Option<Box<dyn PageLock>>,
    memory: NonNull<u8>,
    bytes: usize,
}

/// The largest page that systems have by default.
const PAGE_BYTES: usize = 64 << 10;

impl HostBlock {
    /// This many zeros; `None` if the host lacks the memory.
    pub fn zeros(bytes: usize) -> Option<HostBlock> {
        let layout = layout(bytes)?;
        // SAFETY: `layout` never has size zero.
        let memory = unsafe { alloc_zeroed(layout) };
        Some(HostBlock {
            lock: None,
            memory: NonNull::new(memory)?,
            bytes,
        })
    }

    /// Locks the pages for a device, if it [can](Device::locks_pages) and the system lets it. Copies between them and this device
    /// then run at the speed of the link. A second call replaces the first lock, unless that is not idle.
    ///
    /// # Cost
    /// The system brings all pages into main memory and keeps them there, so this is for memory that is copied again and again.
    /// # Errors
    /// Those of the device.
    pub fn lock(&mut self, device: &dyn Device) -> Result<()> {
        if self.lock.as_ref().is_some_and(|lock| !lock.is_idle()) {
            return Ok(());
        }
        self.lock = None;
        if self.bytes > 0 {
            let pages = RawBuffer {
                addr: self.memory.addr().get() as u64,
                bytes: self.bytes.next_multiple_of(PAGE_BYTES),
            };
            // SAFETY: the pages hold this block alone, and its `Drop` frees them only when the lock is gone and idle. They are
            // accessed through slices that borrow the block, so no call copies them while the lock is dropped.
            self.lock = unsafe { device.lock_pages(pages) }?;
        }
        Ok(())
    }

    /// Whether a device has locked the pages.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }
}

// SAFETY: the block owns its memory, and a lock may be dropped on any thread.
unsafe impl Send for HostBlock {}
// SAFETY: a shared block is only read.
unsafe impl Sync for HostBlock {}

impl Deref for HostBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory has at least this many bytes, initialised, and belongs to the block.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.bytes) }
    }
}

impl DerefMut for HostBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes) }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let is_idle = self.lock.take().is_none_or(|lock| lock.is_idle());
        if let Some(layout) = layout(self.bytes).filter(|_| is_idle) {
            // SAFETY: `zeros` allocated it with this layout, and no copy can touch it any more.
            unsafe { dealloc(self.memory.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for HostBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBlock({} bytes, {:?})", self.bytes, self.lock)
    }
}

// `None` for more than a machine can address.
fn layout(bytes: usize) -> Option<Layout> {
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?;
    Layout::from_size_align(bytes, PAGE_BYTES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dry;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    #[derive(Debug)]
    struct Lock {
        is_idle: bool,
        is_dropped: Arc<AtomicBool>,
    }

    impl PageLock for Lock {
        fn is_idle(&self) -> bool {
            self.is_idle
        }
    }

    impl Drop for Lock {
        fn drop(&mut self) {
            self.is_dropped.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_block_is_zeros_in_pages_of_its_own() {
        for bytes in [0, 1, 100, PAGE_BYTES, 3 * PAGE_BYTES + 1] {
            let mut block = HostBlock::zeros(bytes).unwrap();
            assert_eq!(
                (block.len(), block.as_ptr().addr() % PAGE_BYTES),
                (bytes, 0)
            );
            assert!(block.iter().all(|&byte| byte == 0));
            block.fill(7);
            // A device without a link to the host has nothing to lock.
            block.lock(&*dry::open()).unwrap();
            assert!(!block.is_locked());
            assert!(block.iter().all(|&byte| byte == 7));
        }
        assert!(HostBlock::zeros(usize::MAX).is_none());
        assert!(HostBlock::zeros(isize::MAX as usize).is_none());
    }

    #[test]
    fn the_lock_goes_before_the_memory_and_memory_that_is_not_idle_stays() {
        for is_idle in [true, false] {
            let is_dropped = Arc::new(AtomicBool::new(false));
            let mut block = HostBlock::zeros(10).unwrap();
            block.lock = Some(Box::new(Lock {
                is_idle,
                is_dropped: is_dropped.clone(),
            }));
            let memory = block.memory;
            drop(block);
            assert!(is_dropped.load(Ordering::Relaxed));
            if !is_idle {
                // SAFETY: memory that may still be written stays allocated; this test is its only owner, and frees it here.
                unsafe {
                    assert_eq!(memory.read(), 0);
                    dealloc(memory.as_ptr(), layout(10).unwrap());
                }
            }
        }
    }
}
