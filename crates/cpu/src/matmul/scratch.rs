//! Spare memory that a thread keeps from one kernel to the next.

use bytemuck::{Pod, Zeroable};
use std::cell::Cell;

/// A cache line, so that scratch memory starts on one.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

thread_local! {
    static SPARE: Cell<Vec<Vec<Line>>> = const { Cell::new(Vec::new()) };
}

/// Runs `work` on `len` numbers of arbitrary value, which start on a cache line.
///
/// The memory returns to this thread's store, so that the next kernel need not request it from the system.
/// Calls may nest.
pub(crate) fn with_scratch<T: Pod, O>(len: usize, work: impl FnOnce(&mut [T]) -> O) -> O {
    let mut store = SPARE.take();
    let mut lines = store.pop().unwrap_or_default();
    SPARE.set(store);
    let needed = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    if lines.len() < needed {
        lines = vec![Line::zeroed(); needed];
    }
    let output = work(&mut bytemuck::cast_slice_mut(&mut lines[..needed])[..len]);
    let mut store = SPARE.take();
    store.push(lines);
    SPARE.set(store);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_is_aligned_and_nests() {
        with_scratch(100, |outer: &mut [f32]| {
            outer.fill(1.0);
            with_scratch(1000, |inner: &mut [f64]| {
                assert_eq!((inner.len(), inner.as_ptr() as usize % 64), (1000, 0));
                inner.fill(2.0);
            });
            assert_eq!((outer.len(), outer.as_ptr() as usize % 64), (100, 0));
            assert!(outer.iter().all(|&x| x == 1.0));
        });
    }
}
