//! The rows of the global batch that belong to this rank.

use super::{Batches, Rows};
use crate::{Error, Result};
use grid::Axis;
use parallel::{Batch, Context};
use std::ops::Range;
use tensor::DType;

/// How the global batch is cut: as [`parallel::RowCut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCut {
    /// Rows of the global batch.
    pub batch: usize,
    /// Micro-batches per replica.
    pub micro_batches: usize,
}

impl RowCut {
    /// The rows of a micro-batch that this rank holds.
    pub fn range(&self, context: &Context, micro_batch: usize) -> Range<usize> {
        let &RowCut {
            batch,
            micro_batches,
        } = self;
        let cut = parallel::RowCut {
            batch,
            micro_batches,
        };
        cut.range(context, micro_batch)
    }

    /// Checks that every rank gets a row of every micro-batch.
    ///
    /// # Errors
    /// [`Error::Setting`] with the counts, if a rank gets none.
    pub fn check(&self, context: &Context) -> Result<()> {
        let RowCut {
            batch,
            micro_batches,
        } = *self;
        let (data, z) = (context.degree(Axis::Data), context.degree(Axis::Z));
        let needed = data
            .checked_mul(z)
            .and_then(|ranks| ranks.checked_mul(micro_batches));
        let smallest = batch / data / micro_batches.max(1) / z;
        match micro_batches > 0 && smallest > 0 && needed.is_some() {
            true => Ok(()),
            false => Err(Error::setting(
                "batch",
                format_args!("{batch} rows"),
                format!("a row for each of data={data} x micro_batches={micro_batches} x z={z}"),
            )),
        }
    }

    /// This rank's rows of a training step.
    ///
    /// # Errors
    /// Those of `data`; [`Error::Parallel`] as [`Rows::upload`].
    pub fn training(
        &self,
        context: &Context,
        dtype: DType,
        data: &dyn Batches,
        step: u64,
    ) -> Result<Batch> {
        self.cut(context, dtype, step, |rows| data.training(step, rows))
    }

    /// This rank's rows of a validation batch.
    ///
    /// # Errors
    /// Those of `data`; [`Error::Parallel`] as [`Rows::upload`].
    pub fn validation(
        &self,
        context: &Context,
        dtype: DType,
        data: &dyn Batches,
        index: usize,
    ) -> Result<Batch> {
        self.cut(context, dtype, 0, |rows| data.validation(index, rows))
    }

    /// This rank's rows, from a function that returns any rows of the global batch.
    ///
    /// # Errors
    /// Those of `rows`; [`Error::Parallel`] as [`Rows::upload`].
    pub fn cut(
        &self,
        context: &Context,
        dtype: DType,
        step: u64,
        rows: impl Fn(Range<usize>) -> Result<Rows>,
    ) -> Result<Batch> {
        let upload = |index| {
            let range = self.range(context, index);
            Ok(rows(range.clone())?.upload(context.device(), dtype, range)?)
        };
        Ok(Batch {
            step,
            num_rows: self.batch,
            micro_batches: (0..self.micro_batches).map(upload).collect::<Result<_>>()?,
        })
    }
}
