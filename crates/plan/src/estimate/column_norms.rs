//! The time of the norms of adapted weights' columns, which each step computes once.

use super::{
    distances::Places,
    prices::{Pricer, Prices},
};
use crate::{Candidate, Request};
use grid::{
    Axis,
    machine::{GemmShape, Variant},
};
use parallel::{Operation, work::ColumnNormsWork};

/// The costs of a grid, on the stage with a mean number of such layers.
#[derive(Clone, Debug)]
pub(super) struct ColumnNorms {
    compute_s: f64,
    // By axis, for all stages together.
    gathers: Vec<Prices>,
    pipeline: f64,
}

impl ColumnNorms {
    /// None if no weight's columns have trained lengths.
    pub(super) fn new(
        request: &Request,
        candidate: &Candidate,
        pricer: &Pricer<'_>,
    ) -> Option<ColumnNorms> {
        let degrees = &candidate.degrees;
        let segments = request.work.segments.iter();
        let all: Vec<&ColumnNormsWork> = segments.flat_map(|one| &one.column_norms).collect();
        all.first()?;
        let size = request.precision.dtype().bytes();
        let of_axis = |axis: Axis| {
            let each = all.iter().flat_map(|norms| norms.gathers(degrees));
            let own = each.filter(|(other, _)| *other == axis);
            let elements = own.flat_map(|(_, elements)| elements);
            let calls = elements.map(|elements| (Operation::AllGather, elements * size));
            pricer.each(axis, &calls.collect::<Vec<_>>())
        };
        let cut = Axis::tensor().into_iter();
        let cut = cut.filter(|axis| degrees.get(*axis) > 1);
        Some(ColumnNorms {
            compute_s: all
                .iter()
                .map(|norms| seconds(request, norms, degrees))
                .sum(),
            gathers: cut.map(of_axis).collect(),
            pipeline: degrees.pipeline as f64,
        })
    }

    /// Seconds per step.
    pub(super) fn seconds(&self, places: &Places) -> f64 {
        let gathers = self.gathers.iter().map(|prices| prices.at(places));
        (self.compute_s + gathers.sum::<f64>()) / self.pipeline
    }
}

// The product A B is added to a copy of W in the accumulator type, whose elements are then squared and summed.
fn seconds(request: &Request, norms: &ColumnNormsWork, degrees: &grid::Degrees) -> f64 {
    let device = &request.machine.device;
    let dtype = request.precision.dtype();
    let (size, wide) = (dtype.bytes(), dtype.accumulator().bytes());
    let k = norms.inputs / degrees.get(norms.reads);
    let n = norms.outputs / degrees.get(norms.emits);
    let shape = GemmShape {
        m: n,
        n: k,
        k: norms.rank,
        dtype: dtype.name(),
        variant: Variant::Tn,
        bytes: (n + k) * norms.rank * size + 2 * n * k * wide,
    };
    // Read and written to be transposed, and to be widened; read and written as squares, and read for their sums.
    let passes = (n * k * (3 * size + 4 * wide)) as f64;
    request
        .machine
        .product
        .seconds(&shape, device, request.tuned)
        + passes / device.kernel_bandwidth("unary", "elementwise")
}
