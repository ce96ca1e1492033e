//! Runs work on all cores.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Number of threads used at a time.
pub(crate) fn count() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8)
}

/// The result of `work` for every item, in no particular order; a panic in `work` is passed on.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(work(item));
        }
        done
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count()).map(|_| scope.spawn(take)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        let mut squares = map(&(0..1000).collect::<Vec<usize>>(), |item| item * item);
        squares.sort_unstable();
        assert!(squares.into_iter().eq((0..1000).map(|item| item * item)));
    }
}
