//! Memory that is only counted, never allocated.

use hal::{DeviceId, Error, Memory, RawBuffer, RawSlice, Result};
use std::collections::BTreeMap;

// Vendors align to this size, and sharded models have many small buffers.
const ALIGNMENT: usize = 256;

/// The address space of a device: every buffer has its own range, which nobody reads.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    device: DeviceId,
    total: usize,
    in_use: usize,
    peak: usize,
    next: u64,
    // Sizes by address.
    live: BTreeMap<u64, usize>,
}

impl AddressSpace {
    pub(crate) fn new(device: DeviceId, total: usize) -> AddressSpace {
        // Starts away from 0, so that an address that was never set is detected.
        let (in_use, peak, next, live) = (0, 0, 1 << 32, BTreeMap::new());
        AddressSpace {
            device,
            total,
            in_use,
            peak,
            next,
            live,
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory {
            free: self.total - self.in_use,
            total: self.total,
        }
    }

    /// The peak number of reserved bytes.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<RawBuffer> {
        let free = self.total - self.in_use;
        let reserved = bytes
            .max(1)
            .checked_next_multiple_of(ALIGNMENT)
            .filter(|reserved| *reserved <= free);
        let Some(reserved) = reserved else {
            return Err(self.refuse(bytes));
        };
        let addr = self.next;
        self.next += reserved as u64;
        self.in_use += reserved;
        self.peak = self.peak.max(self.in_use);
        self.live.insert(addr, reserved);
        Ok(RawBuffer { addr, bytes })
    }

    /// Counts memory that a piece of work needs while it runs.
    pub(crate) fn borrow_briefly(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.total - self.in_use {
            return Err(self.refuse(bytes));
        }
        self.peak = self.peak.max(self.in_use + bytes);
        Ok(())
    }

    pub(crate) fn deallocate(&mut self, buffer: RawBuffer) {
        self.in_use -= self.live.remove(&buffer.addr).unwrap_or(0);
    }

    /// Refuses memory that is not live: on a real device it would cause a fault or read another buffer's
    /// numbers.
    pub(crate) fn check(&self, operation: &str, slice: &RawSlice) -> Result<()> {
        self.check_range(operation, slice.addr, slice.bytes())
    }

    pub(crate) fn check_range(&self, operation: &str, addr: u64, bytes: usize) -> Result<()> {
        let block = self.live.range(..=addr).next_back();
        let inside = |(start, size): (&u64, &usize)| addr + bytes as u64 <= start + *size as u64;
        match bytes == 0 || block.is_some_and(inside) {
            true => Ok(()),
            false => {
                let found = format!("{bytes} bytes at {addr:#x}");
                Err(Error::invalid(
                    operation,
                    found,
                    format!("a live buffer of {}", self.device),
                ))
            }
        }
    }

    fn refuse(&self, asked: usize) -> Error {
        let mut largest: Vec<usize> = self.live.values().copied().collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        largest.truncate(3);
        let free = self.total - self.in_use;
        Error::OutOfMemory {
            device: self.device,
            asked,
            free,
            in_use: self.in_use,
            cached: 0,
            largest: largest.into(),
            by_kind: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::{DType, VendorId};

    fn space(total: usize) -> AddressSpace {
        AddressSpace::new(
            DeviceId {
                vendor: VendorId::SIM,
                ordinal: 0,
            },
            total,
        )
    }

    #[test]
    fn bytes_are_counted_and_given_back() {
        let mut space = space(1024);
        let (a, b) = (space.allocate(100).unwrap(), space.allocate(256).unwrap());
        assert!(a.addr % 256 == 0 && b.addr >= a.addr + 256);
        assert_eq!(
            space.memory(),
            Memory {
                free: 512,
                total: 1024
            }
        );
        let error = space.allocate(513).unwrap_err();
        let Error::OutOfMemory {
            asked: 513,
            free: 512,
            in_use: 512,
            ref largest,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(**largest, [256, 256]);
        assert!(space.allocate(usize::MAX).is_err());
        assert!(space.borrow_briefly(513).is_err());
        space.borrow_briefly(256).unwrap();
        space.deallocate(a);
        space.deallocate(b);
        assert_eq!((space.memory().free, space.peak()), (1024, 768));
    }

    #[test]
    fn memory_that_is_not_live_is_refused() {
        let mut space = space(1024);
        let block = space.allocate(256).unwrap();
        let slice = |addr, len| RawSlice {
            addr,
            len,
            dtype: DType::F32,
        };
        assert!(space.check("fill", &slice(block.addr, 64)).is_ok());
        assert!(space.check("fill", &slice(block.addr + 4, 64)).is_err());
        assert!(
            space.check("fill", &slice(4, 0)).is_ok(),
            "an empty slice touches nothing"
        );
        space.deallocate(block);
        let message = space
            .check("fill", &slice(block.addr, 64))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("fill: 256 bytes at") && message.contains("live buffer of sim:0"),
            "{message}"
        );
    }
}
