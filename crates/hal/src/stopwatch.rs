//! How long a host has waited.

use crate::sync::time::Instant;
use std::{cell::Cell, time::Duration};

/// No thread that waits looks at its clock as rarely as this. Even on a crowded host, a longer gap means that the
/// process was suspended.
const SUSPENDED: Duration = Duration::from_secs(1);

/// The time that a wait has lasted, without the time during which its process was suspended.
///
/// A scheduler may suspend a job and continue it later (SIGSTOP, SIGCONT). Its ranks have then waited no longer for each
/// other, although their clocks say so. A wait must look at its stopwatch several times a second.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    last: Cell<Instant>,
    elapsed: Cell<Duration>,
}

impl Stopwatch {
    /// A wait that begins now.
    pub fn start() -> Stopwatch {
        Stopwatch {
            last: Cell::new(Instant::now()),
            elapsed: Cell::default(),
        }
    }

    /// How long the wait has lasted.
    pub fn elapsed(&self) -> Duration {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last.replace(now));
        if since < SUSPENDED {
            self.elapsed.set(self.elapsed.get() + since);
        }
        self.elapsed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_no_wait() {
        let watch = Stopwatch::start();
        let mut now = watch.last.get();
        for (later_ms, elapsed_ms) in [(50, 50), (900, 950), (10_000, 950), (50, 1_000)] {
            now += Duration::from_millis(later_ms);
            assert_eq!(watch.at(now), Duration::from_millis(elapsed_ms));
        }
    }
}
