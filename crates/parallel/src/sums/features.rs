//! Features that an axis cuts, as leaves and nodes of the sums over them.

use super::Held;
use crate::Context;
use grid::{Axis, feature_range};
use hal::sums;
use std::ops::Range;
use tensor::{Error, Result};

/// `len` features cut by `axis`, and the nodes of a sum over them that each of its ranks holds.
pub(crate) struct Features {
    pub(crate) axis: Axis,
    /// Terms of a leaf.
    pub(crate) leaf: usize,
    pub(crate) held: Held,
    len: usize,
    rank: usize,
}

impl Features {
    /// # Errors
    /// [`Error::Invalid`] for a shard that does not end where a leaf ends; on all ranks, since all look at all shards.
    pub(crate) fn of(context: &Context, axis: Axis, len: usize) -> Result<Features> {
        let (leaf, degree) = (sums::leaf(len), context.degree(axis));
        let nodes = |index| {
            let shard = feature_range(len, degree, index);
            match shard.end == len || shard.end.is_multiple_of(leaf) {
                true => {
                    Ok(sums::nodes(shard.start.div_ceil(leaf)..shard.end.div_ceil(leaf)).collect())
                }
                false => Err(Error::invalid(
                    "reproducible sums",
                    format!(
                        "{len} features in {degree} shards of {axis}, one of which ends at {}",
                        shard.end
                    ),
                    format!("shards that end at multiples of {leaf}"),
                )),
            }
        };
        let held = (0..degree).map(nodes).collect::<Result<_>>()?;
        Ok(Features {
            axis,
            leaf,
            held: Held::new(held),
            len,
            rank: context.index(axis),
        })
    }

    /// How many features each node has, rank by rank.
    pub(crate) fn widths(&self) -> Vec<Vec<usize>> {
        let width =
            |node: &Range<usize>| (node.end * self.leaf).min(self.len) - node.start * self.leaf;
        let of_rank = |nodes: &Vec<Range<usize>>| nodes.iter().map(width).collect();
        self.held.iter().map(of_rank).collect()
    }

    /// The features of this rank's nodes, counted from its first one.
    pub(crate) fn own(&self) -> Vec<Range<usize>> {
        runs(&self.widths()[self.rank])
    }
}

/// Ranges of these lengths, one after another.
pub(crate) fn runs(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let mut run = |len: &usize| {
        end += len;
        end - len..end
    };
    lengths.iter().map(&mut run).collect()
}
