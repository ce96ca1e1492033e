//! Sequence parallelism: between layers, ranks of X hold runs of the residual's vectors instead of copies of all.
//!
//! A transposed layer ends with a reduce-scatter instead of an all-reduce, and a normal layer begins with an
//! all-gather. Together they move the bytes of the all-reduce. Norms, dropout and residuals in between touch 1/Gx of
//! the vectors, and keep 1/Gx of the memory. Where X does not divide the vectors, the first runs have one more.
//! Source: arXiv:2205.05198, section 4.2.

use super::Spread;
use crate::{Context, Purpose, counters::Subject};
use grid::{Axis, shard_range};
use hal::Counts;
use tensor::{Result, Stream, Tensor, ops};

impl Spread {
    /// Number of elements in each rank's run, if a vector has `columns` of them.
    pub(crate) fn counts(&self, context: &Context, columns: usize) -> Counts {
        let (ranks, vectors) = (context.degree(Axis::X), self.vectors(context));
        match vectors.is_multiple_of(ranks) {
            true => Counts::Even(vectors / ranks * columns),
            false => {
                let of_rank = |rank| shard_range(vectors, ranks, rank).len() * columns;
                Counts::Uneven((0..ranks).map(of_rank).collect())
            }
        }
    }

    /// The vectors of this rank's tokens, from the runs of all ranks of X.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn gather_runs(
        &self,
        context: &Context,
        (subject, stream): (Subject, &Stream),
        held: &Tensor,
    ) -> Result<Tensor> {
        let columns = held.columns();
        let shape = self.shape(context, columns);
        let group = context.group(Axis::X, Purpose::Main)?;
        let Some(group) = group.filter(|_| self.share.runs) else {
            return held.reshape(&shape);
        };
        let whole = context.buffer(held.dtype(), &shape)?;
        let counts = self.counts(context, columns);
        group.all_gather(context, subject, stream, held, &whole, &counts)?;
        Ok(whole)
    }

    /// This rank's run of the sum of `whole`, of this rank's tokens, over X.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn sum_runs(
        &self,
        context: &Context,
        (subject, stream): (Subject, &Stream),
        whole: &Tensor,
    ) -> Result<Tensor> {
        let columns = whole.columns();
        let shape = [self.own(context).len(), columns];
        let Some(group) = context.group(Axis::X, Purpose::Main)? else {
            return whole.reshape(&shape);
        };
        let held = context.buffer(whole.dtype(), &shape)?;
        let counts = self.counts(context, columns);
        group.reduce_scatter(context, subject, stream, whole, &held, &counts)?;
        Ok(held)
    }

    /// A copy of this rank's run of `whole`, of this rank's tokens.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(crate) fn cut_runs(&self, context: &Context, whole: &Tensor) -> Result<Tensor> {
        let (own, vectors) = (self.own(context), self.vectors(context));
        let columns = whole.num_elements() / vectors.max(1);
        let all = whole.reshape(&[vectors, columns])?;
        let held = Tensor::empty(whole.device(), whole.dtype(), &[own.len(), columns])?;
        ops::copy(&all.rows(own.start, own.len())?, &held)?;
        Ok(held)
    }
}
