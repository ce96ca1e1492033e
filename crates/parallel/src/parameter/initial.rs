//! Initial values of a parameter: drawn, or the norms of another one's columns.

use super::{Parameter, Scope};
use crate::{Init, layers::Linear};
use grid::{IndexBox, Layout};
use hal::random::Key;
use std::ops::Range;
use tensor::Result;

/// Where initial values come from.
pub(super) enum Initial {
    Drawn(Init),
    ColumnNorms(Parameter),
}

/// Elements of a weight that are drawn or read at a time, to add their squares.
const SLAB_ELEMENTS: usize = 1 << 22;

impl Parameter {
    /// Declares the lengths of the columns of a layer's weight, cut like the layer's outputs. They do not decay.
    ///
    /// # Errors
    /// As [`declare`](Parameter::declare).
    pub fn declare_norms(scope: &Scope, name: &str, layer: &Linear) -> Result<Parameter> {
        let layout = Layout::cut(vec![vec![layer.kind.emits()]]).expect("one axis cuts once");
        let initial = Initial::ColumnNorms(layer.weight.clone());
        Parameter::begun(scope, name, &[layer.out_features], layout, (initial, false))
    }

    /// The parameter of whose columns this one holds the norms when training begins.
    pub fn norms_of(&self) -> Option<&Parameter> {
        match &self.0.initial {
            Initial::Drawn(_) => None,
            Initial::ColumnNorms(weight) => Some(weight),
        }
    }

    /// The initial values of this rank's shard.
    pub fn initial_values(&self, seed: u64) -> Vec<f64> {
        let mut values = vec![0.0; self.num_elements()];
        self.draw_initial(seed, 1, &mut values);
        values
    }

    /// Draws them into `values` on that many threads.
    pub(crate) fn draw_initial(&self, seed: u64, threads: usize, values: &mut [f64]) {
        match &self.0.initial {
            Initial::Drawn(init) => self.draw(*init, seed, self.index(), threads, values),
            Initial::ColumnNorms(weight) => weight.draw_norms(seed, self.index(), threads, values),
        }
    }

    // The drawn values with these indices.
    fn draw(&self, init: Init, seed: u64, index: &IndexBox, threads: usize, values: &mut [f64]) {
        let key = Key::new(seed, self.name(), 0);
        let runs = index.contiguous_runs(self.global_shape());
        init.draw(key, runs, threads, values);
    }

    // The norms of these drawn columns.
    fn draw_norms(&self, seed: u64, columns: &IndexBox, threads: usize, norms: &mut [f64]) {
        let columns = columns.start[0]..columns.start[0] + columns.shape[0];
        let found = column_norms(self.global_shape()[0], columns, |index| {
            let mut values = vec![0.0; index.num_elements()];
            if let Initial::Drawn(init) = &self.0.initial {
                self.draw(*init, seed, index, threads, &mut values);
            }
            Ok::<_, std::convert::Infallible>(values)
        });
        let Ok(found) = found;
        norms.copy_from_slice(&found);
    }
}

/// The Euclidean norms of some columns of a matrix of this many rows, of which `read` returns boxes. Rows are added in their order,
/// so a column's norm does not depend on which other columns are asked for.
///
/// # Errors
/// Those of `read`.
pub fn column_norms<E>(
    rows: usize,
    columns: Range<usize>,
    mut read: impl FnMut(&IndexBox) -> std::result::Result<Vec<f64>, E>,
) -> std::result::Result<Vec<f64>, E> {
    let mut sums = vec![0.0; columns.len()];
    let slab = (SLAB_ELEMENTS / columns.len().max(1)).max(1);
    for start in (0..rows).step_by(slab) {
        let index = IndexBox {
            start: vec![start, columns.start],
            shape: vec![slab.min(rows - start), columns.len()],
        };
        for row in read(&index)?.chunks(columns.len().max(1)) {
            let each = sums.iter_mut().zip(row);
            each.for_each(|(sum, number)| *sum += number * number);
        }
    }
    Ok(sums.into_iter().map(f64::sqrt).collect())
}
