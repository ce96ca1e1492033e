//! For tests: an allocator that counts the large allocations of each thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Bytes from which an allocation counts.
pub const LARGE: usize = 256 << 10;

thread_local! {
    static LARGE_ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is the system allocator's; the counter is a plain number of the thread, without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantee.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's guarantee.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantee.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: usize) {
    if bytes >= LARGE {
        LARGE_ALLOCATIONS.set(LARGE_ALLOCATIONS.get() + 1);
    }
}

/// What `work` returns, and the number of large allocations that this thread made in it.
pub fn counted<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = LARGE_ALLOCATIONS.get();
    let result = work();
    (result, LARGE_ALLOCATIONS.get() - before)
}
