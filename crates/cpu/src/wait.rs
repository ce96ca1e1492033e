//! How a thread of this vendor waits for another: it stays awake for a while ([`patience`](crate::patience)), then
//! sleeps.

use crate::patience::{Running, stay_awake};
use hal::lock;
use hal::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use hal::sync::{Condvar, Mutex};
use std::time::Duration;

/// The longest sleep of a thread that also watches for an abort.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Notifies waiting threads that something has changed; they check for themselves what it was.
///
/// A waiter reads [`seen`](Signal::seen), checks whether its condition holds, and only then waits, so that no
/// change in between is lost.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Signal {
    changes: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Signal {
    /// Number of changes so far, for [`wait`](Signal::wait).
    pub(crate) fn seen(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Announces a change.
    pub(crate) fn raise(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        // Pairs with the sleeper's fence: the sleeper counts itself first, then checks for changes. So either we
        // see the sleeper, or it sees the change.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.lock));
            self.wake.notify_all();
        }
    }

    /// Waits for a change after `seen`, for at most about `limit`; returns whether there was one.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) -> bool {
        stay_awake(|| self.seen() != seen) || self.sleep(seen, limit)
    }

    fn sleep(&self, seen: u64, limit: Duration) -> bool {
        let _asleep = Running::less();
        let guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = self
            .wake
            .wait_timeout_while(guard, limit, |()| self.seen() == seen);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        drop(slept);
        self.seen() != seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn no_change_is_lost() {
        let (ping, pong) = (Signal::default(), Signal::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..2000 {
                    while !ping.wait(turn, POLL) {}
                    pong.raise();
                }
            });
            for turn in 0..2000 {
                ping.raise();
                while !pong.wait(turn, POLL) {}
            }
        });
        assert_eq!((ping.seen(), pong.seen()), (2000, 2000));
    }

    #[test]
    fn a_wait_ends_at_its_limit() {
        let start = Instant::now();
        assert!(!Signal::default().wait(0, Duration::from_millis(5)));
        assert!(start.elapsed() >= Duration::from_millis(5));
    }
}
