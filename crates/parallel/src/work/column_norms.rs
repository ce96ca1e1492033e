//! Norms of the columns of adapted weights.

use grid::{Axis, Degrees};

/// The norms of the columns of W + scale A B, for one layer whose columns have trained lengths. A step computes them once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNormsWork {
    /// Features that the layer reads.
    pub inputs: usize,
    /// Features that it emits.
    pub outputs: usize,
    /// Columns of A and rows of B.
    pub rank: usize,
    /// The axis over which the layer contracts.
    pub reads: Axis,
    /// The axis over which it emits.
    pub emits: Axis,
}

impl ColumnNormsWork {
    /// Elements of A and B that a rank gathers over each axis: both over Z, then A over the one that cuts the outputs and B over
    /// the one that cuts the inputs.
    pub fn gathers(&self, degrees: &Degrees) -> [(Axis, Vec<usize>); 3] {
        let [reads, emits] = [self.reads, self.emits].map(|axis| degrees.get(axis));
        let [a, b] = [self.inputs, self.outputs].map(|features| features * self.rank);
        let tensor = reads * emits;
        [
            (Axis::Z, vec![a / tensor, b / tensor]),
            (self.emits, vec![a / reads]),
            (self.reads, vec![b / emits]),
        ]
    }
}
