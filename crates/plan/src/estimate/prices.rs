//! The cost of collectives at every distance that their axis can have.

use super::distances::{Distances, Places};
use crate::{Candidate, Request};
use grid::{
    Axis, Degrees,
    machine::{Placement, Route},
};
use parallel::Operation;
use train::placement::Pricing;

/// Seconds of some collectives on an axis, by distance index; the first is the smallest.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    axis: Axis,
    seconds: Vec<f64>,
}

impl Prices {
    /// Their seconds with the axes at these distances.
    pub(super) fn at(&self, places: &Places) -> f64 {
        self.seconds[places[self.axis as usize]]
    }

    /// Those of so many times the collectives.
    pub(super) fn times(mut self, count: f64) -> Prices {
        self.seconds
            .iter_mut()
            .for_each(|seconds| *seconds *= count);
        self
    }
}

/// Prices the collectives of one grid.
pub(super) struct Pricer<'a> {
    pricing: Pricing<'a>,
    placement: Placement,
    degrees: Degrees,
    distances: &'a Distances,
}

impl<'a> Pricer<'a> {
    pub(super) fn new(
        request: &'a Request,
        candidate: &Candidate,
        distances: &'a Distances,
    ) -> Pricer<'a> {
        let hierarchical = request
            .hierarchical
            .unwrap_or(request.preset.hierarchical());
        Pricer {
            pricing: Pricing {
                machine: &request.machine,
                hierarchical,
            },
            placement: request.machine.placement(request.devices),
            degrees: candidate.degrees,
            distances,
        }
    }

    /// These collectives on an axis, one after another, each over a whole buffer of so many bytes.
    pub(super) fn each(&self, axis: Axis, collectives: &[(Operation, usize)]) -> Prices {
        self.among(axis, (1, self.degrees.get(axis)), collectives)
    }

    /// The same between `size` ranks of the axis, each `stride` from the next.
    pub(super) fn among(
        &self,
        axis: Axis,
        (stride, size): (usize, usize),
        collectives: &[(Operation, usize)],
    ) -> Prices {
        let at = |inner: &usize| {
            let route = Route::strided(inner * stride, size, self.placement);
            collectives
                .iter()
                .map(|(operation, bytes)| self.pricing.one(*operation, *bytes, route))
                .sum::<f64>()
        };
        let mut seconds = vec![0.0];
        seconds.extend(self.distances.of(axis).iter().map(at));
        if let Some(least) = seconds[1..].iter().copied().reduce(f64::min) {
            seconds[0] = least;
        }
        Prices { axis, seconds }
    }
}
