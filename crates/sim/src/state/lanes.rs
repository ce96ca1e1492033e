//! Streams and events as a device stores them.

use super::SimState;
use crate::point::Point;
use hal::{Result, StreamKind};

/// A stream.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) kind: StreamKind,
    /// The earliest start of its next work.
    pub(super) point: Point,
    /// End of its last work.
    pub(super) busy_until: f64,
}

/// Events by number; numbers of dropped events are reused.
#[derive(Debug, Default)]
pub(super) struct Events {
    points: Vec<Option<Point>>,
    free: Vec<usize>,
}

impl Events {
    fn insert(&mut self, point: Point) -> usize {
        if let Some(index) = self.free.pop() {
            self.points[index] = Some(point);
            return index;
        }
        self.points.push(Some(point));
        self.points.len() - 1
    }

    fn remove(&mut self, index: usize) {
        self.points[index] = None;
        self.free.push(index);
    }

    fn get(&self, index: usize) -> Option<&Point> {
        self.points.get(index).and_then(Option::as_ref)
    }
}

// A host that polls for a message checks every few microseconds, and less often once it has waited long.
const FIRST_LOOK: f64 = 5e-6;
const LATER_LOOKS: f64 = 0.005;
// This many checks in a row do not count as a wait yet, because an allocation checks which blocks are free.
const GLANCES: u32 = 256;

impl SimState {
    /// Adds a stream, and returns its number.
    pub(crate) fn add_lane(&mut self, kind: StreamKind) -> usize {
        self.lanes.push(Lane {
            kind,
            point: Point::origin(),
            busy_until: 0.0,
        });
        let lane = self.lanes.len() - 1;
        if kind == StreamKind::Compute {
            self.main.get_or_insert(lane);
        }
        lane
    }

    /// Records an event at the end of a stream, and returns its number.
    ///
    /// # Errors
    /// The device's failure.
    pub(crate) fn record(&mut self, lane: usize) -> Result<usize> {
        self.check()?;
        Ok(self.events.insert(self.lanes[lane].point.clone()))
    }

    /// Makes a stream wait for an event.
    ///
    /// # Errors
    /// The device's failure.
    pub(crate) fn wait(&mut self, lane: usize, event: usize) -> Result<()> {
        self.check()?;
        if let Some(point) = self.events.get(event) {
            self.lanes[lane].point.merge(point);
        }
        Ok(())
    }

    /// Forgets an event.
    pub(crate) fn forget(&mut self, event: usize) {
        self.events.remove(event);
    }

    /// The time at which an event passes.
    ///
    /// # Errors
    /// The failure of a message for which it waits.
    pub(crate) fn event_time(&mut self, event: usize) -> Result<f64> {
        let mut point = self
            .events
            .get(event)
            .cloned()
            .unwrap_or_else(Point::origin);
        self.settle(&mut point)?;
        let at = point.at;
        if let Some(kept) = self.events.points.get_mut(event) {
            *kept = Some(point);
        }
        Ok(at)
    }

    /// Whether an event has passed by the host's clock.
    ///
    /// A program polls an event that waits for another rank's message. Each check that fails costs the host
    /// some time, so that the message can arrive. Whether it has arrived by then depends only on virtual time.
    ///
    /// # Errors
    /// The failure of a message for which it waits.
    pub(crate) fn is_complete(&mut self, event: usize) -> Result<bool> {
        let pending = self.events.get(event).map(|point| point.pending.clone());
        for pending in pending.unwrap_or_default() {
            if !pending.may_end_by(self.host)? {
                self.look_again();
                return Ok(false);
            }
        }
        let passed = self.event_time(event)? <= self.host;
        if !passed {
            self.looks += 1;
            if self.looks > GLANCES {
                self.look_again();
            }
        }
        Ok(passed)
    }

    fn look_again(&mut self) {
        let since = *self.polling_since.get_or_insert(self.host);
        self.host += FIRST_LOOK.max((self.host - since) * LATER_LOOKS);
        self.publish();
    }

    /// Makes the host wait until `at`.
    pub(crate) fn host_reaches(&mut self, at: f64) {
        self.host = self.host.max(at);
        (self.polling_since, self.looks) = (None, 0);
        self.publish();
    }

    /// The end of a stream.
    ///
    /// # Errors
    /// The failure of a message for which it waits.
    pub(crate) fn lane_time(&mut self, lane: usize) -> Result<f64> {
        self.settle_lane(lane)?;
        Ok(self.lanes[lane].point.at)
    }
}
