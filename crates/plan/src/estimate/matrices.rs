//! The time of updates that need each hidden matrix as a whole.

use super::{
    distances::Places,
    memory::elements_of_matrices,
    prices::{Pricer, Prices},
};
use crate::{Candidate, Request};
use grid::{
    Axis,
    machine::{GemmShape, Variant},
};
use parallel::Operation;
use tensor::ops::Transpose;
use train::optimiser::RuleMatmul;

/// The costs of a grid.
#[derive(Clone, Debug)]
pub(super) struct Matrices {
    // GEMMs on the rank with the most work.
    compute_s: f64,
    // Over the tensor axes, there and back; results over Data; and with sharded state the gradients before.
    exchanged: Option<Prices>,
    results: Prices,
    gradients: Prices,
}

impl Matrices {
    /// None if the optimiser has no rule for matrices as a whole.
    pub(super) fn new(
        request: &Request,
        candidate: &Candidate,
        pricer: &Pricer<'_>,
    ) -> Option<Matrices> {
        let optimiser = request.training().optimiser();
        let rule = optimiser.matrices()?;
        let degrees = &candidate.degrees;
        let ranks = degrees.x * degrees.y * degrees.z;
        let segments = request.work.segments.iter();
        let matrices: Vec<&[usize; 2]> = segments.flat_map(|segment| &segment.matrices).collect();
        let of_stage = matrices.len() as f64 / degrees.pipeline as f64;
        let rounds = (of_stage / (ranks * degrees.data) as f64).ceil().max(1.0);
        let seconds = |[rows, columns]: &[usize; 2]| {
            let matmuls = rule.matmuls(*rows, *columns);
            matmuls.iter().map(|one| matmul(request, one)).sum::<f64>()
        };
        let seconds = matrices.into_iter().map(seconds);
        let (sum, largest) = seconds.fold((0.0, 0.0f64), |(sum, largest), one| {
            (sum + one, largest.max(one))
        });
        let wide = request.precision.dtype().accumulator().bytes() as f64;
        // Bytes of a stage's matrices in the accumulator type; parts are padded to those of the largest of a round.
        let bytes = elements_of_matrices(request) * wide / degrees.pipeline as f64;
        let per_round = |bytes: f64| (bytes / rounds) as usize;
        let repeated = |operation, bytes: f64, axis| {
            let each = vec![(operation, per_round(bytes)); rounds as usize];
            pricer.each(axis, &each)
        };
        let local = bytes / ranks as f64;
        let cut = Axis::tensor().into_iter();
        let cut = cut.filter(|axis| degrees.get(*axis) > 1);
        let farthest = cut.max_by_key(|axis| degrees.get(*axis));
        let there_and_back = |axis| {
            let each = 2.0 * local / degrees.data as f64;
            repeated(Operation::AllToAll, each, axis)
        };
        Some(Matrices {
            compute_s: (sum / request.devices as f64).max(largest),
            exchanged: farthest.map(there_and_back),
            results: repeated(Operation::AllGather, local, Axis::Data),
            gradients: pricer.each(Axis::Data, &[(Operation::AllGather, local as usize)]),
        })
    }

    /// Seconds per step.
    pub(super) fn seconds(&self, is_sharded: bool, places: &Places) -> f64 {
        let exchanged = self.exchanged.as_ref();
        let exchanged = exchanged.map_or(0.0, |prices| prices.at(places));
        let gradients = match is_sharded {
            true => self.gradients.at(places),
            false => 0.0,
        };
        self.compute_s + exchanged + self.results.at(places) + gradients
    }
}

fn matmul(request: &Request, one: &RuleMatmul) -> f64 {
    let (machine, dtype) = (&request.machine, request.precision.dtype());
    let RuleMatmul { m, n, k, transpose } = *one;
    let shape = GemmShape {
        m,
        n,
        k,
        dtype: dtype.name(),
        variant: match transpose {
            Transpose::None => Variant::Nn,
            Transpose::First => Variant::Tn,
            Transpose::Second => Variant::Nt,
        },
        bytes: (m * k + k * n + m * n) * dtype.bytes(),
    };
    let device = &machine.device;
    machine.product.seconds(&shape, device, request.tuned)
}
