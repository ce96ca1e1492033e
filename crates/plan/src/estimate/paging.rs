//! Weights and gradients that come to the device bucket by bucket.

use super::memory::{parameters, trained_share, weight_bytes};
use crate::{Candidate, Request};
use parallel::Reproducible;
use train::config::PlaceKind;

/// Bytes of a rank that are beyond its device while no layer uses them, and how fast they move.
pub(super) struct Paging {
    weights: f64,
    gradients: f64,
    weights_rate: f64,
    gradients_rate: f64,
    /// Whether both use one link.
    shared: bool,
}

impl Paging {
    /// Of a candidate, on links of this many bytes per second in each direction; nothing of what is on the device.
    pub(super) fn new(
        request: &Request,
        candidate: &Candidate,
        bandwidth: impl Fn(PlaceKind) -> Option<f64>,
    ) -> Paging {
        let (dtype, places) = (request.precision.dtype(), candidate.places);
        let elements = parameters(request, &candidate.degrees);
        let shards = match candidate.sharding.shards_gradients() {
            true => candidate.degrees.data as f64,
            false => 1.0,
        };
        let trained = elements * trained_share(request) / shards;
        let [weights_rate, gradients_rate] = [places.weights, places.gradients]
            .map(|place| bandwidth(place).unwrap_or(f64::INFINITY));
        Paging {
            weights: elements * weight_bytes(request, dtype.bytes() as f64),
            gradients: trained * dtype.accumulator().bytes() as f64,
            weights_rate,
            gradients_rate,
            shared: places.weights == places.gradients,
        }
    }

    /// Seconds for which compute waits in a micro-batch whose forward and backward take these times. Weights arrive once beside the
    /// forward and once beside the backward, or twice there if it recomputes. Gradients leave beside the backward; in every
    /// micro-batch but the first they also arrive.
    pub(super) fn waits(
        &self,
        [forward, backward]: [f64; 2],
        recompute: bool,
        micro_batches: usize,
    ) -> f64 {
        let again = if recompute { 2.0 } else { 1.0 };
        let later = 1.0 - 1.0 / micro_batches.max(1) as f64;
        let (of_weights, of_gradients) = (
            self.weights / self.weights_rate,
            self.gradients / self.gradients_rate,
        );
        let arrivals = self.both(again * of_weights, later * of_gradients);
        (of_weights - forward).max(0.0) + (arrivals.max(of_gradients) - backward).max(0.0)
    }

    /// Seconds of the norm, for which gradients come once, or twice where its bits are those of any grid.
    pub(super) fn norm(&self, bits: Reproducible) -> f64 {
        let times = match bits {
            Reproducible::Run => 1.0,
            Reproducible::Grid => 2.0,
        };
        times * self.gradients / self.gradients_rate
    }

    /// Seconds in which gradients and weights come for the update, and weights leave.
    pub(super) fn update(&self) -> f64 {
        let of_weights = self.weights / self.weights_rate;
        self.both(of_weights, self.gradients / self.gradients_rate) + of_weights
    }

    // Two transfers in one direction.
    fn both(&self, one: f64, other: f64) -> f64 {
        match self.shared {
            true => one + other,
            false => one.max(other),
        }
    }
}
