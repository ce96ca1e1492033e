//! How the rows of a batch lie on ranks, and the leaves of the sums over them.

use crate::Context;
use grid::{Axis, Grid, shard_range};
use hal::sums;
use std::ops::Range;
use tensor::{Error, Result, Tensor};

/// How the global batch is cut: over Data and into micro-batches, then over Z. Each piece is a run of rows.
///
/// Where counts do not divide, the first pieces have one row more, so that no row is left out. Pieces whose gradients are
/// summed first are neighbours: those over Z, and then either the micro-batches of a replica, or, where each micro-batch is
/// summed over the replicas, the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCut {
    /// Rows of the global batch.
    pub batch: usize,
    /// Micro-batches per replica.
    pub micro_batches: usize,
    /// What is cut first.
    pub first: CutFirst,
}

/// Into what a batch is cut first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutFirst {
    /// Into the rows of each replica along Data.
    Replicas,
    /// Into micro-batches: a replica's rows of two micro-batches are not neighbours.
    MicroBatches,
}

impl From<usize> for RowCut {
    /// A batch of these rows in one micro-batch.
    fn from(batch: usize) -> RowCut {
        RowCut::new(batch, 1)
    }
}

impl RowCut {
    /// A batch of these rows, cut into replicas and then into micro-batches.
    pub const fn new(batch: usize, micro_batches: usize) -> RowCut {
        RowCut {
            batch,
            micro_batches,
            first: CutFirst::Replicas,
        }
    }

    /// The rows of a micro-batch that this rank holds.
    pub fn range(&self, context: &Context, micro_batch: usize) -> Range<usize> {
        let at = [Axis::Data, Axis::Z].map(|axis| context.index(axis));
        self.range_at(context.grid(), at, micro_batch)
    }

    /// The rows of a micro-batch that the ranks with these indices on Data and Z hold.
    pub fn range_at(
        &self,
        grid: &Grid,
        [replica, shard]: [usize; 2],
        micro_batch: usize,
    ) -> Range<usize> {
        let rows = self.of_replica(grid, replica, micro_batch);
        part_of(rows, grid.degree(Axis::Z), shard)
    }

    /// The rows of a micro-batch that a replica holds.
    pub(crate) fn of_replica(
        &self,
        grid: &Grid,
        replica: usize,
        micro_batch: usize,
    ) -> Range<usize> {
        let over_data = (grid.degree(Axis::Data), replica);
        let over_micro_batches = (self.micro_batches, micro_batch);
        let (first, second) = match self.first {
            CutFirst::Replicas => (over_data, over_micro_batches),
            CutFirst::MicroBatches => (over_micro_batches, over_data),
        };
        part_of(part_of(0..self.batch, first.0, first.1), second.0, second.1)
    }

    /// Checks that every rank gets a row of every micro-batch. All ranks find the same.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the counts, if a rank gets none.
    pub fn check(&self, context: &Context) -> Result<()> {
        let RowCut {
            batch,
            micro_batches,
            ..
        } = *self;
        let (data, z) = (context.degree(Axis::Data), context.degree(Axis::Z));
        let needed = data
            .checked_mul(z)
            .and_then(|ranks| ranks.checked_mul(micro_batches));
        // In either order: pieces of whole rows nest.
        let smallest = batch / data / micro_batches.max(1) / z;
        match micro_batches > 0 && smallest > 0 && needed.is_some() {
            true => Ok(()),
            false => Err(Error::invalid(
                "batch",
                format!("{batch} rows"),
                format!("a row for each of data={data} x micro_batches={micro_batches} x z={z}"),
            )),
        }
    }

    /// The micro-batch whose rows these are on this rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the rows of all micro-batches, if there is none.
    pub(crate) fn micro_batch_of(&self, context: &Context, rows: &Range<usize>) -> Result<usize> {
        let mut all = 0..self.micro_batches;
        all.find(|&index| self.range(context, index) == *rows)
            .ok_or_else(|| {
                let needed = (0..self.micro_batches)
                    .map(|index| format!("{:?}", self.range(context, index)));
                Error::invalid(
                    "pass",
                    format!("rows {rows:?} of {}", self.batch),
                    format!(
                        "those of a micro-batch on this rank: {}",
                        needed.collect::<Vec<_>>().join(", ")
                    ),
                )
            })
    }
}

fn part_of(of: Range<usize>, pieces: usize, index: usize) -> Range<usize> {
    let piece = shard_range(of.len(), pieces, index);
    of.start + piece.start..of.start + piece.end
}

/// The leaves of sums over the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaves {
    /// Rows of a leaf.
    pub(crate) rows: usize,
    /// Rows of the batch.
    pub(crate) batch: usize,
}

// A leaf of fewer terms than this costs more than the sum itself.
const FEWEST_TERMS: usize = 16;
// A chain of terms that is not cut further.
const LONGEST_CHAIN: usize = 64;

impl Leaves {
    /// Those for a batch whose rows have `inner` vectors each, such as tokens: one row, or several where rows are short.
    pub(crate) fn of(batch: usize, inner: usize) -> Leaves {
        let rows = match inner < FEWEST_TERMS {
            true => sums::leaf(batch),
            false => 1,
        };
        Leaves { rows, batch }
    }

    /// The nodes of a run of rows.
    pub(crate) fn nodes(self, rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        sums::nodes(rows.start.div_ceil(self.rows)..rows.end.div_ceil(self.rows))
    }

    /// Checks that every micro-batch of every rank ends with a leaf. All ranks find the same.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first rows that do not.
    pub(crate) fn check(self, grid: &Grid, cut: RowCut) -> Result<()> {
        if self.rows == 1 {
            return Ok(());
        }
        let ends =
            |rows: &Range<usize>| rows.end == self.batch || rows.end.is_multiple_of(self.rows);
        for replica in 0..grid.degree(Axis::Data) {
            for micro_batch in 0..cut.micro_batches {
                for shard in 0..grid.degree(Axis::Z) {
                    let rows = cut.range_at(grid, [replica, shard], micro_batch);
                    if !ends(&rows) {
                        return Err(Error::invalid(
                            "reproducible sums",
                            format!("rows {rows:?} of {} on a rank", self.batch),
                            format!("borders at multiples of {}", self.rows),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of a node, counted from the first of `rows`.
    pub(crate) fn rows_of(self, node: &Range<usize>, rows: &Range<usize>) -> Range<usize> {
        node.start * self.rows - rows.start..(node.end * self.rows).min(rows.end) - rows.start
    }

    /// Terms of a leaf of a matmul that contracts rows of `inner` vectors: so that its tree joins this one.
    pub(crate) fn terms(self, inner: usize) -> usize {
        let mut terms = self.rows * inner;
        while terms > LONGEST_CHAIN && terms.is_multiple_of(2) {
            terms /= 2;
        }
        terms.max(1)
    }
}

/// The vectors of `tensor` that belong to some rows, where `of` is the number of rows whose vectors it holds.
///
/// # Errors
/// [`Error::Invalid`] if they are not within it.
pub(crate) fn part(tensor: &Tensor, rows: &Range<usize>, of: usize) -> Result<Tensor> {
    if rows.len() == of {
        return Ok(tensor.clone());
    }
    let per_row = tensor.num_elements() / of.max(1);
    let flat = tensor.reshape(&[tensor.num_elements()])?;
    let cut = flat.rows(rows.start * per_row, rows.len() * per_row)?;
    match tensor.shape() {
        [.., columns] if tensor.shape().len() > 1 && *columns > 0 => {
            cut.reshape(&[cut.num_elements() / columns, *columns])
        }
        _ => Ok(cut),
    }
}
