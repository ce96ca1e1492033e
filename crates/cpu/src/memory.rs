//! The memory of one rank: host memory with a limit, so that a tensor that is too large causes an error instead
//! of a killed process.

use crate::machine;
use hal::sync::Mutex;
use hal::{DeviceId, Error, Memory, RawBuffer, Result, lock};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const ALIGN: usize = 64;
const HUGE_PAGE: usize = 2 << 20;
// From this size on, memory comes directly from the system, in huge pages, and the system's available memory is
// checked.
const LARGE: usize = 2 << 20;
const NUM_LARGEST: usize = 5;

/// Bytes that all ranks of this process hold. The system counts memory as used only once it is touched.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Returns memory up to a limit, and tracks what is in use.
#[derive(Debug)]
pub(crate) struct Allocator {
    device: DeviceId,
    limit: usize,
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    bytes: usize,
    // The number of buffers of each size.
    sizes: BTreeMap<usize, usize>,
}

impl Allocator {
    /// An allocator with that limit, which defaults to what the machine has available.
    pub(crate) fn new(device: DeviceId, limit: Option<usize>) -> Allocator {
        Allocator {
            device,
            limit: limit.unwrap_or_else(machine_bytes),
            live: Mutex::default(),
        }
    }

    /// Free and total memory.
    pub(crate) fn memory(&self) -> Memory {
        let machine = machine_free().min(machine::available_bytes());
        Memory {
            free: self.within_limit(lock(&self.live).bytes).min(machine),
            total: self.limit,
        }
    }

    /// Reserves memory, aligned to 64 bytes and filled with zeros.
    ///
    /// The zeros are for soundness, not for callers: a caller that reads before it writes gets a wrong number,
    /// and nothing worse.
    /// # Errors
    /// [`Error::OutOfMemory`] beyond the limit or what the machine has.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        let mut live = lock(&self.live);
        let free = self.free(bytes, &live);
        let addr = if bytes <= free { reserve(bytes) } else { None };
        let addr = addr.ok_or_else(|| self.out_of_memory(bytes, free, &live))?;
        live.bytes += bytes;
        *live.sizes.entry(bytes).or_default() += 1;
        HELD.fetch_add(bytes, Ordering::Relaxed);
        Ok(RawBuffer {
            addr: addr as u64,
            bytes,
        })
    }

    /// Frees memory.
    ///
    /// # Safety
    /// `buffer` came from this allocator, is freed once, and nothing uses it any more.
    pub(crate) unsafe fn deallocate(&self, buffer: RawBuffer) {
        let mut live = lock(&self.live);
        live.bytes -= buffer.bytes;
        if let Some(count) = live.sizes.get_mut(&buffer.bytes) {
            *count -= 1;
        }
        live.sizes.retain(|_, count| *count > 0);
        drop(live);
        HELD.fetch_sub(buffer.bytes, Ordering::Relaxed);
        // SAFETY: the caller guarantees that the memory came from `reserve` with this size and is out of use.
        unsafe { release(buffer.addr as *mut u8, buffer.bytes) };
    }

    fn within_limit(&self, used: usize) -> usize {
        self.limit.saturating_sub(used)
    }

    fn free(&self, asked: usize, live: &Live) -> usize {
        let ours = self.within_limit(live.bytes).min(machine_free());
        if asked < LARGE {
            ours
        } else {
            ours.min(machine::available_bytes())
        }
    }

    fn out_of_memory(&self, asked: usize, free: usize, live: &Live) -> Error {
        let sizes = live
            .sizes
            .iter()
            .rev()
            .flat_map(|(&bytes, &count)| std::iter::repeat_n(bytes, count));
        let largest = sizes.take(NUM_LARGEST).collect();
        let (device, in_use, by_kind) = (self.device, live.bytes, Vec::new());
        Error::OutOfMemory {
            device,
            asked,
            free,
            in_use,
            cached: 0,
            by_kind,
            largest,
        }
    }
}

/// The memory that the machine had available when this process first checked.
fn machine_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(machine::available_bytes)
}

fn machine_free() -> usize {
    machine_bytes().saturating_sub(HELD.load(Ordering::Relaxed))
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

fn reserve(bytes: usize) -> Option<*mut u8> {
    if is_mapped(bytes) {
        return map(bytes);
    }
    // SAFETY: `layout` never has size zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout(bytes)?) };
    (!memory.is_null()).then_some(memory)
}

/// # Safety
/// `memory` came from `reserve` with this size and is out of use.
unsafe fn release(memory: *mut u8, bytes: usize) {
    if is_mapped(bytes) {
        // SAFETY: the caller guarantees that this is a mapping of `map`.
        unsafe { unmap(memory, whole_pages(bytes)) };
    } else if let Some(layout) = layout(bytes) {
        // SAFETY: the caller guarantees that `reserve` allocated it with this same layout.
        unsafe { std::alloc::dealloc(memory, layout) };
    }
}

const fn is_mapped(bytes: usize) -> bool {
    cfg!(all(unix, not(miri))) && bytes >= LARGE
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(HUGE_PAGE)
}

/// A mapping of complete huge pages, cut out of one that is a page longer.
#[cfg(all(unix, not(miri)))]
fn map(bytes: usize) -> Option<*mut u8> {
    let wanted = whole_pages(bytes);
    let mapped = wanted.checked_add(HUGE_PAGE)?;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new anonymous mapping at an address of the system's choice touches no memory in use.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let head = start.align_offset(HUGE_PAGE).min(HUGE_PAGE);
    let memory = start.wrapping_add(head);
    // SAFETY: the pages before the cut belong to the mapping just made, which nothing uses yet.
    unsafe { unmap(start, head) };
    // SAFETY: as above, for the pages after the cut.
    unsafe { unmap(memory.wrapping_add(wanted), HUGE_PAGE - head) };
    #[cfg(target_os = "linux")]
    // SAFETY: advice on our own mapping; it changes the pages' size and no content. Refused advice is harmless.
    unsafe {
        libc::madvise(memory.cast(), wanted, libc::MADV_HUGEPAGE)
    };
    Some(memory)
}

#[cfg(not(all(unix, not(miri))))]
fn map(_bytes: usize) -> Option<*mut u8> {
    unreachable!("a bug: nothing is mapped on this system")
}

/// # Safety
/// The `bytes` from `memory` on are whole pages of mappings made by `map`, out of use.
#[cfg(all(unix, not(miri)))]
unsafe fn unmap(memory: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller guarantees the range. The call fails only for an invalid range, and then does
        // nothing.
        unsafe { libc::munmap(memory.cast(), bytes) };
    }
}

/// # Safety
/// Never called: nothing is mapped on this system.
#[cfg(not(all(unix, not(miri))))]
unsafe fn unmap(_memory: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::VendorId;

    const DEVICE: DeviceId = DeviceId {
        vendor: VendorId::CPU,
        ordinal: 0,
    };

    #[test]
    fn memory_is_aligned_zeroed_and_given_back() {
        let allocator = Allocator::new(DEVICE, Some(64 << 20));
        for bytes in [0, 1, 63, 64, 100_003, LARGE - 1, LARGE, 5 * LARGE + 7] {
            let buffer = allocator.allocate(bytes).unwrap();
            assert_eq!((buffer.addr % 64, buffer.bytes), (0, bytes));
            // SAFETY: just allocated with this size, and used by nothing else.
            let content = unsafe { std::slice::from_raw_parts_mut(buffer.addr as *mut u8, bytes) };
            assert!(content.iter().all(|&byte| byte == 0));
            content.fill(1);
            assert_eq!(lock(&allocator.live).bytes, bytes);
            // SAFETY: from this allocator, once, out of use.
            unsafe { allocator.deallocate(buffer) };
        }
        assert_eq!(allocator.memory().free, 64 << 20);
    }

    #[test]
    fn too_much_is_an_error_with_numbers() {
        let allocator = Allocator::new(DEVICE, Some(1000));
        let (small, large) = (
            allocator.allocate(100).unwrap(),
            allocator.allocate(400).unwrap(),
        );
        let error = allocator.allocate(501).unwrap_err();
        let expected = Error::OutOfMemory {
            device: DEVICE,
            asked: 501,
            free: 500,
            in_use: 500,
            cached: 0,
            by_kind: vec![],
            largest: Box::new([400, 100]),
        };
        assert_eq!(error, expected);
        for buffer in [small, large] {
            // SAFETY: from this allocator, once, out of use.
            unsafe { allocator.deallocate(buffer) };
        }
    }

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let allocator = Allocator::new(DEVICE, Some(usize::MAX));
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 46] {
            assert!(
                matches!(allocator.allocate(bytes), Err(Error::OutOfMemory { .. })),
                "{bytes}"
            );
        }
    }
}
