//! Sequence parallelism: between layers, ranks of X hold runs of the residual's vectors instead of copies of all.
//!
//! A transposed layer ends with a reduce-scatter instead of an all-reduce, and a normal layer begins with an
//! all-gather. Together they move the bytes of the all-reduce. Norms, dropout and residuals in between touch 1/Gx of
//! the vectors, and keep 1/Gx of the memory. Source: arXiv:2205.05198, section 4.2.
//!
//! No model states where this happens. Operations that treat vectors alike work on the run that a rank holds; any
//! other operation, and a model that asks for the tensor, gets all vectors, which are then gathered.

use super::DTensor;
use crate::{Context, Purpose, counters::Subject};
use grid::{Axis, shard_range};
use hal::Counts;
use std::{ops::Range, rc::Rc};
use tensor::{Result, Stream, Tensor, Var, ops};

/// The vectors of a value, of which each rank of X holds a run. Where X does not divide them, the first runs have one
/// more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    // The dims of all vectors: rows, and what is between rows and features.
    leading: Rc<[usize]>,
}

impl Spread {
    /// Of a value with these dims before its features, if vectors are to be spread and each rank of X gets one. Also over
    /// a single rank, so that the work of a model can be counted there.
    pub(crate) fn of(context: &Context, leading: &[usize]) -> Option<Spread> {
        let ranks = context.degree(Axis::X);
        let vectors = leading.iter().product::<usize>();
        let wanted = context.settings().sequence_parallel && vectors >= ranks;
        wanted.then(|| Spread {
            leading: leading.into(),
        })
    }

    /// The dims of all vectors.
    pub(crate) fn leading(&self) -> &[usize] {
        &self.leading
    }

    /// The vectors that this rank holds.
    pub(crate) fn own(&self, context: &Context) -> Range<usize> {
        let ranks = context.degree(Axis::X);
        shard_range(self.vectors(), ranks, context.index(Axis::X))
    }

    /// Number of all vectors.
    pub(crate) fn vectors(&self) -> usize {
        self.leading.iter().product()
    }

    /// Number of elements in each rank's run, if a vector has `columns` of them.
    pub(crate) fn counts(&self, context: &Context, columns: usize) -> Counts {
        let (ranks, vectors) = (context.degree(Axis::X), self.vectors());
        match vectors.is_multiple_of(ranks) {
            true => Counts::Even(vectors / ranks * columns),
            false => {
                let of_rank = |rank| shard_range(vectors, ranks, rank).len() * columns;
                Counts::Uneven((0..ranks).map(of_rank).collect())
            }
        }
    }

    /// All vectors, from the runs of all ranks.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn gather(
        &self,
        context: &Context,
        (subject, stream): (Subject, &Stream),
        held: &Tensor,
    ) -> Result<Tensor> {
        let columns = held.columns();
        let shape = [&self.leading[..], &[columns]].concat();
        let Some(group) = context.group(Axis::X, Purpose::Main)? else {
            return held.reshape(&shape);
        };
        let whole = context.buffer(held.dtype(), &shape)?;
        let counts = self.counts(context, columns);
        group.all_gather(context, subject, stream, held, &whole, &counts)?;
        Ok(whole)
    }

    /// This rank's run of the sum of `whole` over X.
    ///
    /// # Errors
    /// Those of the collective.
    pub(crate) fn sum(
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

    /// The elements of this rank's run as a matrix.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another number of elements.
    pub(crate) fn run(&self, context: &Context, elements: &Tensor) -> Result<Tensor> {
        let vectors = self.own(context).len();
        elements.reshape(&[vectors, elements.num_elements() / vectors.max(1)])
    }

    /// A copy of this rank's run of `whole`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub(crate) fn cut(&self, context: &Context, whole: &Tensor) -> Result<Tensor> {
        let (own, columns) = (self.own(context), whole.columns());
        let all = whole.reshape(&[self.vectors(), columns])?;
        let held = Tensor::empty(whole.device(), whole.dtype(), &[own.len(), columns])?;
        ops::copy(&all.rows(own.start, own.len())?, &held)?;
        Ok(held)
    }
}

impl DTensor {
    // All vectors of a spread value. Every rank of X computes the same gradient of them, and keeps its run of it.
    pub(super) fn gathered(&self, spread: &Spread) -> Result<Var> {
        let (context, spread) = (self.context().clone(), spread.clone());
        let compute = context.device().compute();
        let whole = spread.gather(&context, (Subject::Layout, &compute), self.held())?;
        let held = [self.held_var()];
        Ok(Var::record_one(
            "gather vectors",
            &held,
            whole,
            false,
            move |d_out| Ok(vec![Some(spread.cut(&context, &d_out)?)]),
        ))
    }

    /// The same value with its vectors spread as those of `other`.
    ///
    /// # Errors
    /// Those of the collective.
    pub(super) fn spread_like(&self, other: &DTensor) -> Result<DTensor> {
        match (self.spread(), other.spread()) {
            (None, Some(spread)) => {
                let (context, spread) = (self.context().clone(), spread.clone());
                let held = spread.cut(&context, self.held())?;
                let again = spread.clone();
                let inputs = [self.held_var()];
                let var = Var::record_one("spread vectors", &inputs, held, false, move |d_out| {
                    let compute = context.device().compute();
                    let place = (Subject::Layout, &compute);
                    Ok(vec![Some(again.gather(&context, place, &d_out)?)])
                });
                DTensor::spread_over(self.pass(), var, (self.features(), self.cut()), spread)
            }
            (Some(_), None) => {
                let whole = self.var()?.clone();
                DTensor::new(self.pass(), whole, self.features(), self.cut())
            }
            _ => Ok(self.clone()),
        }
    }
}
