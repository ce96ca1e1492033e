//! Exchanges the tokens of all features for all tokens of some features, over Context.

use super::Spread;
use crate::{Context, Purpose, counters::Subject};
use grid::Axis;
use tensor::{Result, Tensor, ops};

impl Spread {
    /// All tokens of this rank's part of the features, from its tokens of all features. Parts must be equally large.
    ///
    /// # Shapes
    /// `part`: this rank's vectors x features. The result: all vectors x features / ranks.
    /// # Errors
    /// Those of the collective.
    pub(crate) fn tokens_to_heads(
        &self,
        context: &Context,
        subject: Subject,
        part: &Tensor,
    ) -> Result<Tensor> {
        let Some(group) = context.group(Axis::Context, Purpose::Main)? else {
            return Ok(part.clone());
        };
        let (ranks, vectors) = (group.size(), part.num_rows());
        let columns = part.columns() / ranks;
        let [send, received] =
            [(); 2].map(|()| context.buffer(part.dtype(), &[ranks * vectors, columns]));
        let (send, received) = (send?, received?);
        for rank in 0..ranks {
            let of_rank = send.rows(rank * vectors, vectors)?;
            ops::columns_into(part, rank * columns, columns, &of_rank)?;
        }
        let compute = context.device().compute();
        group.all_to_all(context, subject, &compute, &send, &received)?;
        self.in_order(context, &received)
    }

    /// The opposite.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn heads_to_tokens(
        &self,
        context: &Context,
        subject: Subject,
        whole: &Tensor,
    ) -> Result<Tensor> {
        let Some(group) = context.group(Axis::Context, Purpose::Main)? else {
            return Ok(whole.clone());
        };
        let (ranks, vectors, columns) = (group.size(), self.vectors(context), whole.columns());
        let [send, received] =
            [(); 2].map(|()| context.buffer(whole.dtype(), &[ranks * vectors, columns]));
        let (send, received) = (send?, received?);
        self.store(context, 0..ranks, whole, &send)?;
        let compute = context.device().compute();
        group.all_to_all(context, subject, &compute, &send, &received)?;
        let part = context.buffer(whole.dtype(), &[vectors, ranks * columns])?;
        for rank in 0..ranks {
            let of_rank = received.rows(rank * vectors, vectors)?;
            ops::set_columns(&part, rank * columns, &of_rank)?;
        }
        Ok(part)
    }
}
