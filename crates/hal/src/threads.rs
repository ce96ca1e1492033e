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

#[cfg(test)]
mod tests {
    use super::*;

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
