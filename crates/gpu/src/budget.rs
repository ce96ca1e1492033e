//! The bytes that a rank may allocate on its device, which may be fewer than the device has.

use hal::{DeviceId, Error, Memory, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the live buffers of one rank. Scratch and staging memory of streams belongs to the vendor and is not counted.
#[derive(Debug)]
pub(crate) struct Budget {
    device: DeviceId,
    limit: Option<usize>,
    in_use: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(device: DeviceId, limit: Option<usize>) -> Budget {
        Budget {
            device,
            limit,
            in_use: AtomicUsize::new(0),
        }
    }

    /// Counts a buffer that is about to be allocated.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] beyond the limit; nothing is counted then.
    pub(crate) fn enter(&self, bytes: usize) -> Result<()> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let more = |in_use: usize| in_use.checked_add(bytes).filter(|all| *all <= limit);
        let entered = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.map(drop).map_err(|in_use| Error::OutOfMemory {
            device: self.device,
            asked: bytes,
            free: limit - in_use,
            in_use,
            cached: 0,
            by_kind: Vec::new(),
            largest: Box::default(),
        })
    }

    /// Counts a buffer no longer.
    pub(crate) fn leave(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What this rank may use of the device's memory.
    pub(crate) fn within(&self, device: Memory) -> Memory {
        let limit = self.limit.unwrap_or(device.total);
        let free = limit.saturating_sub(self.in_use.load(Ordering::Relaxed));
        Memory {
            free: device.free.min(free),
            total: device.total.min(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::VendorId;

    #[test]
    fn the_limit_holds_to_the_byte_and_what_is_freed_counts_no_more() {
        let device = DeviceId {
            vendor: VendorId::CUDA,
            ordinal: 1,
        };
        let budget = Budget::new(device, Some(1000));
        budget.enter(600).unwrap();
        let error = budget.enter(401).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::OutOfMemory {
                    asked: 401,
                    free: 400,
                    in_use: 600,
                    ..
                }
            ),
            "{error}"
        );
        budget.enter(400).unwrap();
        budget.leave(600);
        let (free, total) = (5000, 8000);
        let own = budget.within(Memory { free, total });
        assert_eq!((own.free, own.total), (600, 1000));
        assert!(budget.enter(usize::MAX).is_err());
    }

    #[test]
    fn without_a_limit_all_memory_is_the_ranks() {
        let device = DeviceId {
            vendor: VendorId::ROCM,
            ordinal: 0,
        };
        let budget = Budget::new(device, None);
        budget.enter(1 << 40).unwrap();
        let all = Memory { free: 7, total: 9 };
        assert_eq!(budget.within(all).total, 9);
    }
}
