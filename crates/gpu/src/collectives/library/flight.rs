//! The calls that are queued on a communicator and have not run yet.

use crate::{context::Context, event::Point, table::Handle, wait::pause};
use hal::{Collective, Error, Join, Result, Stopwatch, lock};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The queued calls of one communicator, oldest first.
#[derive(Debug, Default)]
pub(super) struct Flight(Mutex<FlightState>);

#[derive(Debug, Default)]
struct FlightState {
    queued: VecDeque<Queued>,
    sequence: u64,
    // When we last saw a call complete.
    progress: Option<Stopwatch>,
}

#[derive(Debug)]
struct Queued {
    calls: Vec<Collective>,
    sequence: u64,
    end: Point,
}

impl Flight {
    /// Records calls that were just queued on `stream`.
    pub(super) fn depart(
        &self,
        context: &Arc<Context>,
        stream: Handle,
        calls: &[Collective],
    ) -> Result<()> {
        let end = Point::new(context)?;
        end.record(stream)?;
        let mut state = lock(&self.0);
        state.arrive()?;
        let sequence = state.sequence;
        state.sequence += 1;
        state.queued.push_back(Queued {
            calls: calls.to_vec(),
            sequence,
            end,
        });
        Ok(())
    }

    /// Fails once a host has waited longer than the group's timeout and no call has completed within that time.
    pub(super) fn check(&self, waited: Duration, join: &Join) -> Result<()> {
        let mut state = lock(&self.0);
        state.arrive()?;
        let idle = state.progress.as_ref().map_or(waited, Stopwatch::elapsed);
        match state.queued.front() {
            Some(oldest) if waited.min(idle) > join.timeout => Err(oldest.timeout(waited, join)),
            _ => Ok(()),
        }
    }

    /// Waits until every call has run, or until `go_on` fails.
    pub(super) fn land(&self, go_on: impl Fn(Duration) -> Result<()>) -> Result<()> {
        let start = Stopwatch::start();
        loop {
            let mut state = lock(&self.0);
            state.arrive()?;
            if state.queued.is_empty() {
                return Ok(());
            }
            drop(state);
            go_on(start.elapsed())?;
            pause(start.elapsed());
        }
    }
}

impl FlightState {
    // Drops completed calls. Calls on several streams may complete out of order; here the oldest holds up the others.
    fn arrive(&mut self) -> Result<()> {
        while let Some(oldest) = self.queued.front() {
            if !oldest.end.is_complete()? {
                return Ok(());
            }
            self.queued.pop_front();
            self.progress = Some(Stopwatch::start());
        }
        Ok(())
    }
}

impl Queued {
    // The library does not report which ranks are missing; it may be any of the others.
    fn timeout(&self, waited: Duration, join: &Join) -> Error {
        let calls: Vec<_> = self.calls.iter().map(Collective::describe).collect();
        Error::Timeout {
            group: join.label.clone(),
            rank: join.members[join.rank],
            operation: calls.join(" with "),
            sequence: self.sequence,
            missing: others(join),
            waited,
        }
    }
}

/// The world ranks of the group's other members.
pub(super) fn others(join: &Join) -> Vec<usize> {
    let own = join.members[join.rank];
    join.members
        .iter()
        .copied()
        .filter(|&member| member != own)
        .collect()
}
