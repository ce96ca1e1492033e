//! How a thread waits for messages: it polls while answers arrive soon, then yields to others.

use crate::job::Job;
use hal::{Error, Result, Stopwatch};
use std::time::{Duration, Instant};

/// Polls without pausing, if every rank has a processor, because the answer is usually close.
const EAGER_POLLS: u32 = 200;
/// After that, a waiting thread yields for this long.
const YIELDING: Duration = Duration::from_micros(300);
/// After that it sleeps for longer and longer times, up to this.
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// One wait, counted from the last sign of life.
#[derive(Debug)]
pub(crate) struct Patience {
    polls: u32,
    since: Instant,
    eager: bool,
    sleep: Duration,
}

impl Patience {
    /// A wait that begins; `eager` if no other rank needs this processor.
    pub(crate) fn new(eager: bool) -> Patience {
        Patience {
            polls: 0,
            since: Instant::now(),
            eager,
            sleep: Duration::from_micros(20),
        }
    }

    /// Something has arrived, so the next message is probably near.
    pub(crate) fn renew(&mut self) {
        *self = Patience::new(self.eager);
    }

    /// Waits briefly, and returns whether it is time to check the clock and the abort signal.
    pub(crate) fn pause(&mut self) -> bool {
        self.polls += 1;
        if self.eager && self.polls < EAGER_POLLS {
            std::hint::spin_loop();
            return false;
        }
        if self.since.elapsed() < YIELDING {
            std::thread::yield_now();
            return self.polls.is_multiple_of(64);
        }
        std::thread::sleep(self.sleep);
        self.sleep = (self.sleep * 2).min(LONGEST_SLEEP);
        true
    }
}

/// A wait for others, which ends when they arrive, by the clock, or with the job.
pub(crate) struct Wait {
    patience: Patience,
    begun: Stopwatch,
    timeout: Duration,
    // Whether it is time to check the clock and the signal.
    look: bool,
}

impl Wait {
    /// A wait that begins now; `eager` if no other rank needs this processor.
    pub(crate) fn new(eager: bool, timeout: Duration) -> Wait {
        Wait {
            patience: Patience::new(eager),
            begun: Stopwatch::start(),
            timeout,
            look: false,
        }
    }

    /// Something has arrived, or it is time to pause.
    pub(crate) fn step(&mut self, any: bool) {
        match any {
            true => {
                self.patience.renew();
                self.begun = Stopwatch::start();
            }
            false => self.look |= self.patience.pause(),
        }
    }

    /// Whether it is time to check.
    pub(crate) fn is_due(&self) -> bool {
        self.look
    }

    /// Ends the wait when the job ends, or when nothing has arrived for its timeout plus `longer`.
    ///
    /// # Errors
    /// [`Error::Aborted`], or `late` with the time waited, which then ends the job.
    pub(crate) fn check(
        &mut self,
        job: &Job,
        longer: Duration,
        late: impl FnOnce(Duration) -> Error,
    ) -> Result<()> {
        if !std::mem::take(&mut self.look) {
            return Ok(());
        }
        let waited = self.begun.elapsed();
        if let Err(aborted) = job.abort().check() {
            job.ending.interrupted(late(waited).to_string());
            return Err(aborted);
        }
        if waited < self.timeout.saturating_add(longer) {
            return Ok(());
        }
        let error = late(waited);
        job.ending.raise(job, &error);
        Err(error)
    }
}
