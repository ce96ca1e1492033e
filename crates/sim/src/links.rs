//! Resources that the streams of a device share: the links inside the node, the links out of it, and the
//! compute units.

use crate::timeline::Timeline;
use grid::machine::Cost as Transfer;

/// The transfers of a device over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    in_node: Timeline,
    network: Timeline,
    // Time in which either kind of link is busy, which slows compute.
    traffic: Timeline,
    // Number of intervals that remained when the past was last dropped.
    kept: usize,
}

// With fewer intervals than this, dropping some is not worth the time.
const MANY: usize = 512;

impl Links {
    /// The end of a transfer that is ready at `start`. Reserves its links until then.
    ///
    /// Its latency passes regardless of the links. The rest progresses while all links that it needs are free.
    pub(crate) fn transfer(&mut self, start: f64, transfer: &Transfer) -> f64 {
        let mut at = start + transfer.latency_s;
        if !transfer.in_node && !transfer.network {
            return at + transfer.transfer_s;
        }
        let mut left = transfer.transfer_s;
        while left > 0.0 {
            at = self.free_from(at, transfer);
            let until = self.taken_from(at, transfer);
            // The last piece ends at the computed sum, not where rounding of a difference would put it.
            let end = if left <= until - at { at + left } else { until };
            left -= until - at;
            self.take(at, end, transfer);
            at = end;
        }
        at
    }

    /// The end of compute that starts at `start`; concurrent transfers take the fraction `slowdown` of the
    /// device.
    pub(crate) fn compute(&self, start: f64, seconds: f64, slowdown: f64) -> f64 {
        self.traffic.finish(start, seconds, 1.0 - slowdown)
    }

    /// Whether it is time to drop the past.
    pub(crate) fn is_long(&self) -> bool {
        self.len() > MANY.max(2 * self.kept)
    }

    /// Drops everything before `horizon`.
    pub(crate) fn prune(&mut self, horizon: f64) {
        for timeline in [&mut self.in_node, &mut self.network, &mut self.traffic] {
            timeline.prune(horizon);
        }
        self.kept = self.len();
    }

    fn len(&self) -> usize {
        self.in_node.len() + self.network.len() + self.traffic.len()
    }

    fn free_from(&self, at: f64, transfer: &Transfer) -> f64 {
        let mut at = at;
        loop {
            let in_node = if transfer.in_node {
                self.in_node.free_from(at)
            } else {
                at
            };
            let free = if transfer.network {
                self.network.free_from(in_node)
            } else {
                in_node
            };
            if free == at {
                return at;
            }
            at = free;
        }
    }

    fn taken_from(&self, at: f64, transfer: &Transfer) -> f64 {
        let in_node = if transfer.in_node {
            self.in_node.taken_from(at)
        } else {
            f64::INFINITY
        };
        let network = if transfer.network {
            self.network.taken_from(at)
        } else {
            f64::INFINITY
        };
        in_node.min(network)
    }

    fn take(&mut self, start: f64, end: f64, transfer: &Transfer) {
        if transfer.in_node {
            self.in_node.insert(start, end);
        }
        if transfer.network {
            self.network.insert(start, end);
        }
        self.traffic.insert(start, end);
    }
}

#[cfg(test)]
mod tests;
