//! What follows from a parameter's layout: sums of its gradient, its part of a norm, blocks over Z.

use super::Parameter;
use crate::{Context, Reproducible};
use grid::{Axis, Layout, shard_range};
use hal::Counts;

impl Parameter {
    /// The axes over which the gradient must still be summed after backward: those that split the batch and do
    /// not cut the parameter. For an axis that cuts it, a reduce-scatter has done the sum. Context splits it, and X where
    /// it spreads vectors ([`Settings::sequence_parallel`](crate::Settings)).
    pub fn sum_axes(&self, context: &Context) -> Vec<Axis> {
        let settings = context.settings();
        // Reproducible sums over a batch are computed from all vectors.
        let of_parts = settings.reproducible == Reproducible::Run;
        let splits = |axis: &Axis| match axis {
            Axis::X => of_parts && settings.sequence_parallel && context.degree(*axis) > 1,
            Axis::Context => of_parts && context.degree(*axis) > 1,
            _ => true,
        };
        [Axis::Z, Axis::X, Axis::Context, Axis::Data]
            .into_iter()
            .filter(splits)
            .filter(|&axis| self.0.layout.cuts(axis).is_none())
            .collect()
    }

    /// Whether this rank counts its shard in a global norm, so that each element counts once over X, Y and Z.
    pub fn counts_in_norm(&self, context: &Context) -> bool {
        Axis::tensor()
            .into_iter()
            .all(|axis| self.0.layout.cuts(axis).is_some() || context.index(axis) == 0)
    }

    /// Shape of the block that the ranks of axis Z hold together.
    pub(crate) fn block_shape(&self, context: &Context) -> Vec<usize> {
        let without_z = self
            .0
            .layout
            .dims()
            .iter()
            .map(|axes| axes.iter().copied().filter(|&a| a != Axis::Z).collect());
        let layout = Layout::cut(without_z.collect()).expect("a part of a valid layout is valid");
        layout.local_shape(&self.0.global_shape, context.grid(), context.coordinates())
    }

    /// Elements of that block that each rank of axis Z holds: runs of its rows.
    pub(crate) fn block_counts(&self, context: &Context) -> Counts {
        let block = self.block_shape(context);
        let (ranks, columns) = (
            context.degree(Axis::Z),
            block[1..].iter().product::<usize>(),
        );
        match block[0] % ranks {
            0 => Counts::Even(block[0] / ranks * columns),
            _ => Counts::Uneven(
                (0..ranks)
                    .map(|i| shard_range(block[0], ranks, i).len() * columns)
                    .collect(),
            ),
        }
    }

    /// The axes that cut its rows into parts.
    pub(crate) fn column_axes(&self, context: &Context) -> Vec<Axis> {
        let axes = self.0.layout.dims().last().into_iter().flatten();
        axes.copied()
            .filter(|axis| context.degree(*axis) > 1)
            .collect()
    }

    /// Whether one of these cuts lies within a block of that many elements of a row: the same on all ranks.
    pub(crate) fn cuts_blocks(&self, context: &Context, axes: &[Axis], block: usize) -> bool {
        let ranks = context.members(axes).into_iter();
        let mut boxes = ranks.map(|rank| {
            let grid = context.grid();
            let coordinates = grid.coordinates(context.mapping().position_of(rank));
            self.0
                .layout
                .local_box(&self.0.global_shape, grid, &coordinates)
        });
        let last = self.0.global_shape.len() - 1;
        boxes.any(|part| !part.is_empty() && !part.start[last].is_multiple_of(block))
    }

    /// Whether ranks of axis Z hold different rows of it, so that it must be gathered before use.
    pub(crate) fn is_scattered(&self, context: &Context) -> bool {
        context.degree(Axis::Z) > 1 && self.0.layout.cuts(Axis::Z).is_some()
    }
}
