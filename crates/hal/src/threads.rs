//! Work of the host that threads share.

use std::thread;

/// Does `work` on each part: the first on the calling thread, each of the others on a thread of its own. Returns when all are done.
///
/// Parts share nothing and wait for nothing, so no schedule of the threads changes a result.
///
/// # Panics
/// If `work` does.
pub fn on_each<P: Send>(parts: impl IntoIterator<Item = P>, work: impl Fn(P) + Sync) {
    let (mut parts, work) = (parts.into_iter(), &work);
    let own = parts.next();
    thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || work(part));
        }
        own.into_iter().for_each(work);
    });
}

/// Whether `is` holds for every part of the items, cut into at most this many; it gets the index of a part's first item too.
pub fn all<T: Sync>(threads: usize, items: &[T], is: impl Fn(usize, &[T]) -> bool + Sync) -> bool {
    let share = items.len().div_ceil(threads.max(1)).max(1);
    let mut found = vec![true; items.len().div_ceil(share)];
    let parts = items.chunks(share).zip(&mut found).enumerate();
    on_each(parts, |(part, (items, found))| {
        *found = is(part * share, items);
    });
    found.into_iter().all(|found| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_decides_against_all() {
        let items: Vec<usize> = (0..10).collect();
        for threads in [0, 1, 3, 64] {
            let equal =
                |first: usize, part: &[usize]| part.iter().copied().eq(first..first + part.len());
            assert!(all(threads, &items, equal));
            assert!(all(threads, &items[..0], |_, _| false));
            for wrong in 0..10 {
                assert!(!all(threads, &items, |_, part| !part.contains(&wrong)));
            }
        }
    }

    #[test]
    fn every_part_is_done_once() {
        for len in [0, 1, 7] {
            let mut numbers: Vec<usize> = (0..len).collect();
            on_each(numbers.chunks_mut(2), |part| {
                part.iter_mut().for_each(|number| *number += 10);
            });
            assert_eq!(numbers, (10..10 + len).collect::<Vec<_>>());
        }
    }
}
