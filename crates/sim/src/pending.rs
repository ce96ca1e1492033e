//! Work whose time is determined later, because it depends on other live ranks.

use crate::{
    group::Meeting,
    point::{Cause, Point},
    work::{Label, Reason},
};
use hal::{Result, lock};
use std::{
    sync::{Mutex, OnceLock},
    time::Duration,
};

/// A piece of work on a stream, launched but not yet placed in time.
///
/// Its position depends only on the work it waits for: it neither takes links from other work nor yields to it.
/// So it may be placed in any order, as soon as its dependencies are known.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Its stream.
    pub(crate) lane: usize,
    pub(crate) label: Label,
    /// When the host launched it.
    launched: f64,
    // Seconds between two pieces of work on a stream.
    gap: f64,
    // The point in the stream after which it runs.
    ready: Mutex<Point>,
    task: Task,
    place: OnceLock<Interval>,
}

/// The kind of work.
#[derive(Debug)]
pub(crate) enum Task {
    /// This rank's own work, with its duration in seconds, behind work that depends on others.
    Alone(f64),
    /// Receives, or a collective with other live ranks.
    Meeting(Meeting),
}

/// The position of work in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) cause: Cause,
}

impl Pending {
    pub(crate) fn new(
        lane: usize,
        label: Label,
        launched: f64,
        gap: f64,
        ready: Point,
        task: Task,
    ) -> Pending {
        Pending {
            lane,
            label,
            launched,
            gap,
            ready: Mutex::new(ready),
            task,
            place: OnceLock::new(),
        }
    }

    /// The position of the work, if it is known by now. Also announces to others the times for which they wait.
    ///
    /// # Errors
    /// [`Error::Mismatch`](hal::Error::Mismatch).
    pub(crate) fn place(&self) -> Result<Option<Interval>> {
        if let Some(place) = self.place.get() {
            return Ok(Some(*place));
        }
        let mut ready = lock(&self.ready);
        for earlier in std::mem::take(&mut ready.pending) {
            match earlier.place()? {
                Some(place) => ready.reach(place.end, place.cause),
                None => ready.pending.push(earlier),
            }
        }
        if !ready.pending.is_empty() {
            return Ok(None);
        }
        let from = (ready.at + self.gap).max(self.launched);
        let (start, end, before) = match &self.task {
            Task::Alone(seconds) => (from, from + seconds, ready.cause.what),
            Task::Meeting(meeting) => {
                let Some((start, end)) = meeting.hold(from)? else {
                    return Ok(None);
                };
                // This rank waited for the others until they arrived.
                (start, end, Reason::Message)
            }
        };
        let cause = Cause {
            what: self.label.reason(),
            since: start,
            before,
        };
        Ok(Some(*self.place.get_or_init(|| Interval {
            start,
            end,
            cause,
        })))
    }

    /// Whether the work may end before `host`. Only virtual time decides this, and the thread waits for the
    /// decision.
    ///
    /// # Errors
    /// [`Error::Aborted`](hal::Error::Aborted).
    pub(crate) fn may_end_by(&self, host: f64) -> Result<bool> {
        if self.place.get().is_some() {
            return Ok(true);
        }
        let ready = lock(&self.ready).clone();
        for earlier in &ready.pending {
            if !earlier.may_end_by(host)? {
                return Ok(false);
            }
        }
        match &self.task {
            Task::Alone(_) => Ok(true),
            Task::Meeting(meeting) => meeting.may_end_by(ready.at.max(self.launched), host),
        }
    }

    /// Fails if the job has ended, or if the ranks for which this work waits have not arrived within its
    /// timeout.
    ///
    /// # Errors
    /// [`Error::Aborted`](hal::Error::Aborted); [`Error::Timeout`](hal::Error::Timeout) naming the ranks.
    pub(crate) fn check_patience(&self, waited: Duration) -> Result<()> {
        let ready = lock(&self.ready).clone();
        match (ready.pending.first(), &self.task) {
            (Some(earlier), _) => earlier.check_patience(waited),
            (None, Task::Meeting(meeting)) => meeting.check_patience(waited),
            (None, Task::Alone(_)) => Ok(()),
        }
    }
}
