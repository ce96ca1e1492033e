//! How long the operations of something slow take.

use hal::sync::Random;
use std::time::Duration;

/// Times up to a longest one, and their sum.
#[derive(Debug)]
pub(crate) struct Pace {
    random: Random,
    longest: Duration,
    spent: Duration,
}

impl Pace {
    /// The times that these choices give.
    pub(crate) fn new(random: Random, longest: Duration) -> Pace {
        Pace {
            random,
            longest,
            spent: Duration::ZERO,
        }
    }

    /// The time of the next operation.
    pub(crate) fn next(&mut self) -> Duration {
        let most = self.longest.as_micros() as u64;
        let time = Duration::from_micros(self.random.below(most + 1));
        self.spent += time;
        time
    }

    /// The time of all operations so far.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }
}
