//! Work whose time is found out later, because it depends on other live ranks.

use crate::{
    group::Meeting,
    lock,
    point::{Cause, Point},
    work::{Label, Reason},
};
use hal::Result;
use std::{
    sync::{Mutex, OnceLock},
    time::Duration,
};

/// A piece of work on a stream, launched but not yet placed in time.
///
/// Where it comes to lie is a function of what it waits for, and of nothing else: it neither takes links from other work
/// nor gives way. So it may be placed whenever that is known, in any order.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Its stream.
    pub(crate) lane: usize,
    pub(crate) label: Label,
    /// When the host launched it.
    launched: f64,
    // Seconds between two pieces of work on a stream.
    gap: f64,
    // The point in the stream behind which it runs.
    ready: Mutex<Point>,
    task: Task,
    place: OnceLock<Place>,
}

/// What the work is.
#[derive(Debug)]
pub(crate) enum Task {
    /// This rank's own, of so many seconds, behind work that depends on others.
    Alone(f64),
    /// Receipts, or a collective with other live ranks.
    Meeting(Meeting),
}

/// Where work lies in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
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

    /// Where the work lies, if that is known by now. Tells others what they wait for from this rank.
    ///
    /// # Errors
    /// [`Error::Mismatch`](hal::Error::Mismatch).
    pub(crate) fn place(&self) -> Result<Option<Place>> {
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
                // Until the others came, this rank waited for them.
                (start, end, Reason::Message)
            }
        };
        let cause = Cause {
            what: self.label.reason(),
            since: start,
            before,
        };
        Ok(Some(*self.place.get_or_init(|| Place {
            start,
            end,
            cause,
        })))
    }

    /// Whether the work may end before `host`, a question of virtual time alone: the thread waits until it is decided.
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

    /// Fails when the job has ended, or when the ranks that this waits for have not come within its timeout.
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
