//! The clocks of one device, and how work advances them: [`lanes`] (streams and events), [`settle`] (times that
//! depend on other ranks), [`host`] (what other ranks see of this one), [`account`] (where time went).

mod account;
mod host;
mod lanes;
mod settle;

pub(crate) use host::Host;

use crate::{
    breakdown::Breakdown,
    cost::Costs,
    links::Links,
    memory::AddressSpace,
    pending::{Pending, Task},
    point::Cause,
    work::{Label, Reason, Work},
};
use grid::machine::Cost as Transfer;
use hal::{DeviceId, Error, Result, StreamKind, lock};
use lanes::{Events, Lane};
use std::sync::{Arc, Mutex, MutexGuard};

/// A device, shared by its streams, kernels and communicators.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: DeviceId,
    pub(crate) costs: Arc<Costs>,
    /// World ranks that are threads, in order; `None` if all are.
    pub(crate) live: Option<Arc<[usize]>>,
    pub(crate) host: Arc<Host>,
    state: Mutex<SimState>,
}

impl Shared {
    pub(crate) fn new(id: DeviceId, costs: Arc<Costs>, live: Option<Arc<[usize]>>) -> Shared {
        let host = Arc::new(Host::default());
        let state = Mutex::new(SimState::new(id, &costs, host.clone()));
        Shared {
            id,
            costs,
            live,
            host,
            state,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SimState> {
        lock(&self.state)
    }
}

/// Whose work and memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The device's.
    Device,
    /// That of the host's processors beside it.
    Host,
}

/// The cost of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// Seconds of the device.
    Compute(f64),
    /// Seconds of the link to the host, or of the host's processors, beside which the device computes.
    Copy(f64),
    /// Links.
    Transfer(Transfer),
}

impl Cost {
    // Duration if nothing is in its way.
    fn seconds(&self) -> f64 {
        match self {
            Cost::Compute(seconds) | Cost::Copy(seconds) => *seconds,
            Cost::Transfer(transfer) => transfer.latency_s + transfer.transfer_s,
        }
    }
}

/// The part of a device that changes while a program runs.
#[derive(Debug)]
pub(crate) struct SimState {
    pub(crate) memory: AddressSpace,
    // What the host's processors work on.
    host_memory: AddressSpace,
    /// Seconds of the host since the device was opened.
    pub(crate) host: f64,
    shown: Arc<Host>,
    launch_host: f64,
    launch_device: f64,
    slowdown: f64,
    links: Links,
    // Seconds of compute since the last collective, in the order of launches.
    since_collective: f64,
    lanes: Vec<Lane>,
    // The stream whose time the breakdown divides: the first compute stream.
    main: Option<usize>,
    events: Events,
    // Work launched with unknown time and not yet counted, in the order of launches.
    open: Vec<Arc<Pending>>,
    failed: Option<Error>,
    // Since when the host has only polled events that had not passed.
    polling_since: Option<f64>,
    looks: u32,
    begin: f64,
    breakdown: Breakdown,
    log: Option<Vec<Work>>,
}

impl SimState {
    fn new(id: DeviceId, costs: &Costs, shown: Arc<Host>) -> SimState {
        SimState {
            memory: AddressSpace::new(id, costs.memory_bytes()),
            host_memory: AddressSpace::new(id, usize::MAX >> 1),
            host: 0.0,
            shown,
            launch_host: costs.launch_host(),
            launch_device: costs.launch_device(),
            slowdown: costs.compute_slowdown(),
            links: Links::default(),
            since_collective: 0.0,
            lanes: Vec::new(),
            main: None,
            events: Events::default(),
            open: Vec::new(),
            failed: None,
            polling_since: None,
            looks: 0,
            begin: 0.0,
            breakdown: Breakdown::default(),
            log: None,
        }
    }

    /// The memory of a side.
    pub(crate) fn memory_of(&mut self, side: Side) -> &mut AddressSpace {
        match side {
            Side::Device => &mut self.memory,
            Side::Host => &mut self.host_memory,
        }
    }

    /// Queues work on a stream.
    ///
    /// Behind work of unknown time, a communication stream accepts more work of unknown time, while a compute
    /// stream makes the host wait. So a reduction may wait for a late stage while that stage still waits for
    /// messages from this one.
    ///
    /// # Errors
    /// The failure of a message for which the stream waits.
    pub(crate) fn run(&mut self, lane: usize, label: Label, cost: Cost) -> Result<()> {
        let Lane { kind, point, .. } = &self.lanes[lane];
        if *kind == StreamKind::Communication && !point.pending.is_empty() {
            self.check()?;
            self.defer(lane, label, Task::Alone(cost.seconds()));
            return Ok(());
        }
        self.run_now(lane, label, &cost).map(drop)
    }

    /// Queues work on a stream, determines the stream's time if it is unknown, and returns start and end.
    ///
    /// # Errors
    /// As [`run`](SimState::run).
    pub(crate) fn run_now(&mut self, lane: usize, label: Label, cost: &Cost) -> Result<(f64, f64)> {
        self.settle_lane(lane)?;
        self.launch();
        let point = &self.lanes[lane].point;
        let start = self.earliest(point.at, self.host);
        let before = if start > self.host {
            point.cause.what
        } else {
            Reason::Host
        };
        let end = self.end_of(start, cost);
        self.queue(lane, label, start, end, before);
        Ok((start, end))
    }

    /// The start of work behind a point of its stream, if the host launched it at `launched`.
    pub(crate) fn earliest(&self, at: f64, launched: f64) -> f64 {
        (at + self.launch_device).max(launched)
    }

    /// The end of work that starts at `start`; a transfer reserves its links until then.
    pub(crate) fn end_of(&mut self, start: f64, cost: &Cost) -> f64 {
        match cost {
            Cost::Compute(seconds) => {
                self.since_collective += seconds;
                self.links.compute(start, *seconds, self.slowdown)
            }
            Cost::Copy(seconds) => start + seconds,
            Cost::Transfer(transfer) => {
                self.prune();
                self.links.transfer(start, transfer)
            }
        }
    }

    /// Seconds of compute since the last call of this function; a collective comes next.
    pub(crate) fn compute_since_collective(&mut self) -> f64 {
        std::mem::take(&mut self.since_collective)
    }

    /// Publishes the host's clock to other ranks.
    pub(crate) fn publish(&self) {
        self.shown.set_clock(self.host);
    }

    fn launch(&mut self) {
        self.host += self.launch_host;
        (self.polling_since, self.looks) = (None, 0);
    }

    // A stream that is behind the host starts its next work no earlier than the host's clock.
    fn prune(&mut self) {
        if self.links.is_long() {
            let ahead = self
                .lanes
                .iter()
                .map(|lane| lane.point.at)
                .fold(f64::INFINITY, f64::min);
            self.links.prune(ahead.max(self.host));
        }
    }

    /// Appends work to its stream.
    fn queue(&mut self, lane: usize, label: Label, start: f64, end: f64, before: Reason) {
        let gap = self.gap(lane, start);
        if self.main == Some(lane) {
            self.breakdown
                .busy(&label, (end - start.max(self.begin)).max(0.0));
        }
        self.note(lane, label, start, end, gap);
        let lane = &mut self.lanes[lane];
        lane.point.at = end;
        lane.point.cause = Cause {
            what: label.reason(),
            since: start,
            before,
        };
        lane.busy_until = end;
        self.publish();
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
