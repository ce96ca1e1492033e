//! The time of sums over rows and columns, for optimisers that keep their means.

use super::{
    distances::Places,
    memory::lines_of_matrices,
    prices::{Pricer, Prices},
};
use crate::{Candidate, Request};
use grid::Axis;
use parallel::Operation;

/// Bytes of the number of a line.
const NUMBER: f64 = 8.0;

/// The collectives of a grid.
#[derive(Clone, Debug)]
pub(super) struct LineSums {
    tensor: Vec<Prices>,
    // With sharded state.
    data: Prices,
}

impl LineSums {
    /// Bytes that a step moves per element beside the update: the largest and the squares of rows and columns in two passes each,
    /// gradients read and directions written, and the largest and the squares of their rows.
    pub(super) const BYTES_OF_ELEMENT: f64 = 4.0 * (2.0 * 2.0 + 2.0 + 2.0);

    /// None if the optimiser keeps no means.
    pub(super) fn new(
        request: &Request,
        candidate: &Candidate,
        pricer: &Pricer<'_>,
    ) -> Option<LineSums> {
        request.training().optimiser().factors()?;
        let degrees = &candidate.degrees;
        let [rows, columns] = lines_of_matrices(request).map(|lines| {
            let bytes = NUMBER * lines / degrees.pipeline as f64;
            bytes as usize
        });
        // The largest and the sums of all lines, and then of rows.
        let calls = [rows + columns, rows + columns, rows, rows];
        let calls = calls.map(|bytes| (Operation::AllReduce, bytes));
        let cut = Axis::tensor().into_iter();
        let cut = cut.filter(|axis| degrees.get(*axis) > 1);
        Some(LineSums {
            tensor: cut.map(|axis| pricer.each(axis, &calls)).collect(),
            data: pricer.each(Axis::Data, &calls),
        })
    }

    /// Seconds per step.
    pub(super) fn seconds(&self, is_sharded: bool, places: &Places) -> f64 {
        let data = Some(&self.data).filter(|_| is_sharded);
        let all = self.tensor.iter().chain(data);
        all.map(|prices| prices.at(places)).sum()
    }
}
