//! What a local job is asked to be.

use std::time::Duration;

/// How to run ranks as threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of ranks, at least 1.
    pub ranks: usize,
    /// How long a rank waits for others before it reports which did not come.
    pub timeout: Duration,
    /// How long the ranks have to return once one has failed. Those that do not are left behind as stuck.
    pub grace: Duration,
}

impl Options {
    /// The timeout of [`new`](Options::new).
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

    /// `ranks` ranks with the default timeout of 60 s.
    pub const fn new(ranks: usize) -> Self {
        Self { ranks, timeout: Duration::ZERO, grace: Duration::ZERO }.with_timeout(Self::DEFAULT_TIMEOUT)
    }

    /// The same with this timeout, and with a grace of 5 s more: a rank that waits for a device notices the abort only
    /// when its own watchdog does.
    pub const fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, grace: timeout.saturating_add(Duration::from_secs(5)), ..self }
    }

    /// The same with this grace.
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_follows_the_timeout_until_it_is_set() {
        let seconds = Duration::from_secs;
        assert_eq!(Options::new(2), Options { ranks: 2, timeout: seconds(60), grace: seconds(65) });
        let own = Options::new(2).with_timeout(seconds(1)).with_grace(seconds(2));
        assert_eq!((own.timeout, own.grace), (seconds(1), seconds(2)));
        assert_eq!(Options::new(1).with_timeout(Duration::MAX).grace, Duration::MAX);
    }
}
