//! Accounts for time: idle times and their reasons, the log, the breakdown.

use super::SimState;
use crate::{
    breakdown::Breakdown,
    work::{Gap, Label, Reason, Work},
};
use hal::Result;
use std::sync::Arc;

impl SimState {
    /// Index of a group, used in labels.
    pub(crate) fn group(&mut self, label: &str) -> u16 {
        self.breakdown.group(label)
    }

    /// Seconds of the host or of the latest stream, whichever is later.
    ///
    /// # Errors
    /// The failure of a message that a stream waits for.
    pub(crate) fn now(&mut self) -> Result<f64> {
        (0..self.lanes.len()).try_fold(0.0, |latest: f64, lane| {
            Ok(latest.max(self.lane_time(lane)?))
        })
    }

    /// Starts a breakdown from now.
    ///
    /// # Errors
    /// As [`now`](SimState::now).
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.begin = self.now()?;
        self.breakdown = self.breakdown.emptied();
        Ok(())
    }

    /// The breakdown from its start to now, where the next one starts.
    ///
    /// # Errors
    /// As [`now`](SimState::now).
    pub(crate) fn finish(&mut self) -> Result<Breakdown> {
        let end = self.now()?;
        if let Some(main) = self.main {
            self.wait_for_the_last(main, end);
        }
        let breakdown = Breakdown {
            total_s: end - self.begin,
            ..self.breakdown.clone()
        };
        self.begin()?;
        Ok(breakdown)
    }

    // After its own last work, the compute stream waits for the last work of the other streams. Only the
    // breakdown changes.
    fn wait_for_the_last(&mut self, main: usize, end: f64) {
        let Some(last) = self.lanes.iter().find(|lane| lane.point.at == end) else {
            return;
        };
        let (at, cause) = (last.point.at, last.point.cause);
        let before = self.lanes[main].point.clone();
        self.lanes[main].point.reach(at, cause);
        self.gap(main, end);
        self.lanes[main].point = before;
    }

    /// Switches the log on, empty, or off.
    pub(crate) fn keep_log(&mut self, on: bool) {
        self.log = on.then(Vec::new);
    }

    /// The log so far, in the order of starts.
    pub(crate) fn take_log(&mut self) -> Vec<Work> {
        let mut log = self.log.as_mut().map(std::mem::take).unwrap_or_default();
        log.sort_by(|a, b| {
            a.start_s
                .total_cmp(&b.start_s)
                .then(a.stream.cmp(&b.stream))
        });
        log
    }

    /// Idle time of a stream before work that starts at `start`.
    pub(super) fn gap(&mut self, lane: usize, start: f64) -> Option<Gap> {
        let (from, point) = (self.lanes[lane].busy_until, &self.lanes[lane].point);
        if start <= from {
            return None;
        }
        let (at, cause) = (point.at, point.cause);
        let parts = [
            (cause.before, from, at.min(cause.since)),
            (cause.what, from.max(cause.since), at),
            (Reason::Host, from.max(at), start),
        ];
        if self.main == Some(lane) {
            let begin = self.begin;
            for (reason, from, to) in parts {
                self.breakdown
                    .idle(reason, (to.min(start) - from.max(begin)).max(0.0));
            }
        }
        let longest = parts
            .into_iter()
            .max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))?;
        Some(Gap {
            seconds: start - from,
            reason: longest.0,
        })
    }

    /// Counts and logs work.
    pub(crate) fn note(
        &mut self,
        lane: usize,
        label: Label,
        start: f64,
        end: f64,
        gap: Option<Gap>,
    ) {
        self.breakdown
            .count(&label, (end - start.max(self.begin)).max(0.0));
        let Some(log) = &mut self.log else { return };
        let group = label
            .group
            .map(|group| Arc::clone(&self.breakdown.groups[usize::from(group)].label));
        let Label {
            name,
            category,
            bytes,
            flop,
            ..
        } = label;
        let kind = self.lanes[lane].kind;
        log.push(Work {
            stream: lane,
            kind,
            name,
            category,
            group,
            bytes,
            flop,
            start_s: start,
            end_s: end,
            gap,
        });
    }
}
