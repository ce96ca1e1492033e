//! How a thread of this vendor waits for another: it spins while a processor is free, yields briefly, then
//! sleeps.

use hal::lock;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The longest sleep of a thread that also watches for an abort.
pub(crate) const POLL: Duration = Duration::from_millis(50);

// Spinning reacts fastest, but occupies the processor. If the peer waits for that processor, only yielding lets
// it run.
const SPIN: Duration = Duration::from_micros(3);
// Waking a sleeping thread costs the waker a system call and the sleeper a wake-up, some 10 us each. Staying
// awake for about as long as both is never much worse than the better choice made with foresight.
const AWAKE: Duration = Duration::from_micros(40);
// The number of yields if there are fewer processors than threads.
const YIELDS: usize = 3;

/// Threads of this process that need a processor now; if they outnumber the processors, spinning steals time.
static RUNNING: AtomicIsize = AtomicIsize::new(0);

/// Counts threads as running until it is dropped.
#[derive(Debug)]
pub(crate) struct Running(isize);

impl Running {
    /// Counts `threads` more running threads.
    pub(crate) fn more(threads: usize) -> Running {
        Running::change(threads as isize)
    }

    fn change(threads: isize) -> Running {
        RUNNING.fetch_add(threads, Ordering::Relaxed);
        Running(threads)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn processor_is_free() -> bool {
    RUNNING.load(Ordering::Relaxed) <= processors() as isize
}

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
        self.changes.load(Ordering::SeqCst)
    }

    /// Announces a change.
    pub(crate) fn raise(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Sequentially consistent with the sleeper's own pair: the sleeper counts itself first, then checks for
        // changes.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.wake.notify_all();
        }
    }

    /// Waits for a change after `seen`, for at most about `limit`; returns whether there was one.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) -> bool {
        let start = Instant::now();
        self.spin(seen, start) || self.give_way(seen, start) || self.sleep(seen, limit)
    }

    fn spin(&self, seen: u64, start: Instant) -> bool {
        while processor_is_free() && start.elapsed() < SPIN {
            for _ in 0..32 {
                if self.seen() != seen {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    fn give_way(&self, seen: u64, start: Instant) -> bool {
        for turn in 0.. {
            if self.seen() != seen {
                return true;
            }
            let awake = turn < YIELDS || (processor_is_free() && start.elapsed() < AWAKE);
            if !awake {
                return false;
            }
            std::thread::yield_now();
        }
        false
    }

    fn sleep(&self, seen: u64, limit: Duration) -> bool {
        let _asleep = Running::change(-1);
        let guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let slept = self
            .wake
            .wait_timeout_while(guard, limit, |()| self.seen() == seen);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        drop(slept);
        self.seen() != seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
