//! A clock for each thread, which advances when the thread reads it or waits.

use std::cell::Cell;
use std::time::Duration;

// The time between two readings. Longer than any spinning, which a model must not repeat.
const TICK: Duration = Duration::from_micros(100);

loom::thread_local! {
    static CLOCK: Cell<Duration> = Cell::new(Duration::ZERO);
}

/// Lets time pass for the calling thread.
pub(super) fn advance(time: Duration) {
    CLOCK.with(|clock| clock.set(clock.get() + time));
}

/// A reading of the calling thread's clock.
#[derive(Clone, Copy, Debug)]
pub struct Instant(Duration);

impl Instant {
    /// The present.
    pub fn now() -> Instant {
        advance(TICK);
        Instant(CLOCK.with(Cell::get))
    }

    /// The time from `earlier` to this.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        Instant::now().0 - self.0
    }
}

impl std::ops::AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        self.0 += time;
    }
}
