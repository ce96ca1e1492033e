//! Exchanges the tokens of all features for more tokens of some features, between neighbours on Context.

use super::{Holders, Spread};
use crate::{Context, Group, Purpose, counters::Subject};
use grid::Axis;
use std::rc::Rc;
use tensor::{Result, Tensor, ops};

/// Neighbours on Context that exchange tokens for heads.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    group: Rc<Group>,
    of_parts: Holders,
    // Each neighbour holds the tokens of all, as one of fewer ranks.
    joined: Holders,
}

impl Neighbours {
    /// This rank and the others of its `number`, which divides the ranks of Context; `None` for one. Collective.
    ///
    /// # Errors
    /// As [`Context::group`].
    pub(crate) fn of(context: &Context, number: usize) -> Result<Option<Neighbours>> {
        let (ranks, own) = (context.degree(Axis::Context), context.index(Axis::Context));
        let first = own - own % number;
        let group = match number {
            1 => None,
            all if all == ranks => context.group(Axis::Context, Purpose::Main)?,
            _ => {
                let members = context.members(&[Axis::Context]);
                let members = &members[first..first + number];
                let label = format!("{number} neighbours on context");
                Some(context.group_of(label, Axis::Context, members, Purpose::Main)?)
            }
        };
        let of_parts = Holders {
            of: ranks,
            ranks: first..first + number,
        };
        Ok(group.map(|group| Neighbours {
            group,
            of_parts,
            joined: Holders::one(ranks / number, first / number),
        }))
    }
}

impl Spread {
    /// The neighbours' tokens of this rank's part of the features, from its own tokens of all features. Parts must be equally
    /// large.
    ///
    /// # Shapes
    /// `part`: this rank's vectors x features. The result: the vectors of all neighbours x features / neighbours.
    /// # Errors
    /// Those of the collective.
    pub(crate) fn tokens_to_heads(
        &self,
        context: &Context,
        neighbours: &Neighbours,
        part: &Tensor,
    ) -> Result<Tensor> {
        let Neighbours {
            group,
            of_parts,
            joined,
        } = neighbours;
        let (ranks, vectors) = (group.size(), part.num_rows());
        let shape = [ranks * vectors, part.columns() / ranks];
        let [send, received, whole] = [(); 3].map(|()| context.buffer(part.dtype(), &shape));
        let (send, received, whole) = (send?, received?, whole?);
        for rank in 0..ranks {
            let of_rank = send.rows(rank * vectors, vectors)?;
            ops::columns_into(part, rank * shape[1], shape[1], &of_rank)?;
        }
        let compute = context.device().compute();
        group.all_to_all(context, Subject::Attention, &compute, &send, &received)?;
        self.join(of_parts, &received, joined, &whole)?;
        Ok(whole)
    }

    /// The opposite.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn heads_to_tokens(
        &self,
        context: &Context,
        neighbours: &Neighbours,
        whole: &Tensor,
    ) -> Result<Tensor> {
        let Neighbours {
            group,
            of_parts,
            joined,
        } = neighbours;
        let (ranks, columns) = (group.size(), whole.columns());
        let vectors = self.vectors(context);
        let shape = [ranks * vectors, columns];
        let [send, received] = [(); 2].map(|()| context.buffer(whole.dtype(), &shape));
        let (send, received) = (send?, received?);
        self.part(joined, whole, of_parts, &send)?;
        let compute = context.device().compute();
        group.all_to_all(context, Subject::Attention, &compute, &send, &received)?;
        let part = context.buffer(whole.dtype(), &[vectors, ranks * columns])?;
        for rank in 0..ranks {
            let of_rank = received.rows(rank * vectors, vectors)?;
            ops::set_columns(&part, rank * columns, &of_rank)?;
        }
        Ok(part)
    }
}
