//! Times that depend on other live ranks.

use super::SimState;
use crate::{
    pending::{Pending, Task},
    point::Point,
    work::Label,
};
use hal::{Result, Stopwatch, StreamKind};
use std::{sync::Arc, time::Duration};

// The longest sleep of a thread that also watches for an abort.
const POLL: Duration = Duration::from_millis(20);

impl SimState {
    /// Queues work whose time is determined when something needs it.
    pub(crate) fn defer(&mut self, lane: usize, label: Label, task: Task) {
        self.launch();
        let point = &mut self.lanes[lane].point;
        let pending = Arc::new(Pending::new(
            lane,
            label,
            self.host,
            self.launch_device,
            point.clone(),
            task,
        ));
        point.pending = vec![pending.clone()];
        self.open.push(pending);
    }

    /// The start of the next work launched, if it is known. On a compute stream it is determined now.
    ///
    /// # Errors
    /// As [`settle`](SimState::settle).
    pub(crate) fn next_start(&mut self, lane: usize) -> Result<Option<f64>> {
        if self.lanes[lane].kind == StreamKind::Compute {
            self.settle_lane(lane)?;
        }
        let point = &self.lanes[lane].point;
        Ok(point
            .pending
            .is_empty()
            .then(|| self.earliest(point.at, self.host + self.launch_host)))
    }

    /// Determines the time of a point.
    ///
    /// # Errors
    /// The failure of a message; from then on it is the device's failure.
    pub(crate) fn settle(&mut self, point: &mut Point) -> Result<()> {
        self.check()?;
        for pending in std::mem::take(&mut point.pending) {
            self.wait_for(&pending)
                .inspect_err(|error| self.failed = Some(error.clone()))?;
            if let Some(place) = pending.place()? {
                point.reach(place.end, place.cause);
            }
        }
        Ok(())
    }

    /// Determines the time at which a stream is free.
    pub(super) fn settle_lane(&mut self, lane: usize) -> Result<()> {
        if self.lanes[lane].point.pending.is_empty() {
            return self.check();
        }
        let mut point = self.lanes[lane].point.clone();
        self.settle(&mut point)?;
        self.lanes[lane].point = point;
        Ok(())
    }

    // Waits until the position of the work is known.
    fn wait_for(&mut self, pending: &Arc<Pending>) -> Result<()> {
        let start = Stopwatch::start();
        loop {
            let seen = self.shown.news();
            if pending.place()?.is_some() {
                return self.take_note(pending);
            }
            // Meanwhile others may wait for this rank, on other streams.
            for open in &self.open {
                open.place()?;
            }
            pending.check_patience(start.elapsed())?;
            self.shown.wait(seen, POLL);
        }
    }

    // Counts the work and the idle time before it on its stream. This happens where the time is requested, not
    // where the work is placed: that point in the program does not depend on other threads, so sums and log do
    // not either.
    fn take_note(&mut self, pending: &Arc<Pending>) -> Result<()> {
        let Some(last) = self.open.iter().position(|open| Arc::ptr_eq(open, pending)) else {
            return Ok(());
        };
        let behind = self.open.split_off(last + 1);
        let (noted, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.lane == pending.lane);
        self.open = open;
        self.open.extend(behind);
        let noted: Vec<Arc<Pending>> = noted;
        for pending in noted {
            if let Some(place) = pending.place()? {
                self.note(pending.lane, pending.label, place.start, place.end, None);
            }
        }
        Ok(())
    }
}
