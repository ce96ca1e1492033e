//! How long a waiting thread stays awake: it spins while a processor is free, then yields briefly.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

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

    /// Counts the calling thread as asleep.
    pub(crate) fn less() -> Running {
        Running::change(-1)
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

/// Waits awake for as long as that pays; returns whether it saw that `happened`.
pub(crate) fn stay_awake(happened: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    spin(start, &happened) || give_way(start, &happened)
}

fn spin(start: Instant, happened: impl Fn() -> bool) -> bool {
    while processor_is_free() && start.elapsed() < SPIN {
        for _ in 0..32 {
            if happened() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    false
}

fn give_way(start: Instant, happened: impl Fn() -> bool) -> bool {
    for turn in 0.. {
        if happened() {
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
