//! Which nodes of a sum the ranks of a group hold.

use super::{Leaves, RowCut, join};
use crate::Context;
use grid::{Axis, shard_range};
use std::{convert::Infallible, ops::Range};

/// For each rank of a group, in its order, the nodes that it holds, from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held(Vec<Vec<Range<usize>>>);

impl Held {
    /// These nodes.
    pub(crate) fn new(nodes: Vec<Vec<Range<usize>>>) -> Held {
        Held(nodes)
    }

    /// Nodes of a sum over the rows of the batch: those of one micro-batch, along Z.
    pub(crate) fn along_z(
        context: &Context,
        cut: RowCut,
        leaves: Leaves,
        micro_batch: usize,
    ) -> Held {
        let replica = context.index(Axis::Data);
        let of_shard = |shard| {
            let rows = cut.range_at(context.grid(), [replica, shard], micro_batch);
            leaves.nodes(rows).collect()
        };
        Held((0..context.degree(Axis::Z)).map(of_shard).collect())
    }

    /// Likewise all micro-batches along Z, each rank having joined what it can.
    pub(crate) fn steps_along_z(context: &Context, cut: RowCut, leaves: Leaves) -> Held {
        Held::steps_of_replica(context, cut, leaves, context.index(Axis::Data))
    }

    /// Whether each rank of Data and Z holds a single node of the rows of its micro-batches, and each replica a single one of
    /// all its rows: the same answer on all ranks. `over_z` states that Z is still to be summed over.
    pub(crate) fn rows_are_single(
        context: &Context,
        cut: RowCut,
        leaves: Leaves,
        over_z: bool,
    ) -> bool {
        let mut replicas = 0..context.degree(Axis::Data);
        Held::along_data(context, cut, leaves).are_single()
            && (!over_z
                || replicas.all(|replica| {
                    Held::steps_of_replica(context, cut, leaves, replica).are_single()
                }))
    }

    fn steps_of_replica(context: &Context, cut: RowCut, leaves: Leaves, replica: usize) -> Held {
        let of_shard = |shard| {
            let mut waiting = Vec::new();
            for micro_batch in 0..cut.micro_batches {
                let rows = cut.range_at(context.grid(), [replica, shard], micro_batch);
                for node in leaves.nodes(rows) {
                    let Ok(()) = join(&mut waiting, (node, ()), |(), ()| Ok::<_, Infallible>(()));
                }
            }
            waiting.into_iter().map(|(node, ())| node).collect()
        };
        Held((0..context.degree(Axis::Z)).map(of_shard).collect())
    }

    /// Likewise the rows of all replicas along Data.
    pub(crate) fn along_data(context: &Context, cut: RowCut, leaves: Leaves) -> Held {
        let degree = context.degree(Axis::Data);
        let nodes = |replica| {
            leaves
                .nodes(shard_range(cut.batch, degree, replica))
                .collect()
        };
        Held((0..degree).map(nodes).collect())
    }

    /// Likewise those of one micro-batch.
    pub(crate) fn micro_batch_along_data(
        context: &Context,
        cut: RowCut,
        leaves: Leaves,
        micro_batch: usize,
    ) -> Held {
        let nodes = |replica| {
            let rows = cut.of_replica(context.grid(), replica, micro_batch);
            leaves.nodes(rows).collect()
        };
        Held((0..context.degree(Axis::Data)).map(nodes).collect())
    }

    /// The nodes of each rank.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Vec<Range<usize>>> {
        self.0.iter()
    }

    /// The nodes of one rank.
    pub(crate) fn of(&self, rank: usize) -> &[Range<usize>] {
        &self.0[rank]
    }

    /// The most nodes of a rank.
    pub(crate) fn most(&self) -> usize {
        self.0.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Whether every rank holds exactly one.
    pub(crate) fn are_single(&self) -> bool {
        self.0.iter().all(|nodes| nodes.len() == 1)
    }

    /// The nodes of all ranks, with the rank and the place among its nodes, from left to right.
    pub(crate) fn in_order(&self) -> Vec<(Range<usize>, usize, usize)> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(rank, nodes)| {
                let place =
                    move |(place, node): (usize, &Range<usize>)| (node.clone(), rank, place);
                nodes.iter().enumerate().map(place)
            })
            .collect();
        all.sort_by_key(|(node, _, _)| node.start);
        all
    }
}
