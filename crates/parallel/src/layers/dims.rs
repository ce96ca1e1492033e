//! The dims of an activation: reshaped, permuted, cut, joined and summed. Dim 0 counts rows, which never move.

use super::DTensor;
use tensor::{Error, Result, Var};

impl DTensor {
    /// The same elements of every row in another shape, whose last dim counts features.
    ///
    /// # Shapes
    /// `inner`: the dims after the rows. If the number of features stays the same, so does the layout;
    /// otherwise the features are gathered first.
    /// # Cost
    /// None; or the all-gather of the features.
    /// # Errors
    /// [`Error::Invalid`] when a row has another number of elements; those of the collective.
    pub fn reshape(&self, inner: &[usize]) -> Result<DTensor> {
        let row: usize = self.inner().iter().product::<usize>() * self.features();
        let features = inner.last().copied();
        let fits = inner
            .iter()
            .try_fold(1usize, |all, size| all.checked_mul(*size))
            == Some(row);
        let Some(features) = features.filter(|_| fits) else {
            let needed = format!("the {row} elements of a row");
            return Err(Error::invalid("reshape", format!("{inner:?}"), needed));
        };
        let x = match features == self.features() {
            true => self.clone(),
            false => self.whole("reshape")?,
        };
        let mut shape = [&[x.num_rows()], inner].concat();
        *shape.last_mut().expect("rows at least") = match features == x.features() {
            true => x.held().columns(),
            false => features,
        };
        DTensor::new(x.pass(), x.var()?.reshape(&shape)?, features, x.cut())
    }

    /// A copy whose dim `i` is dim `order[i]` of this value.
    ///
    /// # Shapes
    /// `order` begins with 0, the rows. If the last dim stays last, the layout stays the same; otherwise the
    /// features are gathered first.
    /// # Cost
    /// One copy, preceded by the all-gather of the features if needed.
    /// # Errors
    /// [`Error::Invalid`] if `order` is not a permutation, moves the rows, or has more than four runs of dims
    /// that stay together; those of the collective.
    pub fn permute(&self, order: &[usize]) -> Result<DTensor> {
        if order.first() != Some(&0) {
            let found = format!("{order:?}");
            return Err(Error::invalid(
                "permute",
                found,
                "0 first: rows stay where they are",
            ));
        }
        let last = self.leading().len();
        let x = match order.last() == Some(&last) {
            true => self.clone(),
            false => self.whole("permute")?,
        };
        let var = x.var()?.permute(order)?;
        let features = match x.cut() {
            Some(_) => x.features(),
            None => var.tensor().columns(),
        };
        x.with_features(var, features, x.cut())
    }

    /// `count` indices of a dim, from `start` on.
    ///
    /// # Shapes
    /// Any dim except 0. For the last dim, the features are gathered first, and the result is uncut.
    /// # Cost
    /// One copy; for features, also their all-gather before it.
    /// # Errors
    /// [`Error::Invalid`] for rows, for a dim that does not exist, and if the indices exceed the dim; those of the
    /// collective.
    pub fn slice(&self, dim: usize, start: usize, count: usize) -> Result<DTensor> {
        let is_last = self.is_last("slice", dim)?;
        let x = match is_last {
            true => self.whole("slice")?,
            false => self.clone(),
        };
        let var = x.var()?.slice(dim, start, count)?;
        let features = if is_last { count } else { x.features() };
        x.with_features(var, features, x.cut())
    }

    /// Concatenates the values along a dim.
    ///
    /// # Shapes
    /// Any dim except 0. Along the last dim, all features are gathered first, and the result is uncut. Along
    /// another dim, all values are changed to the layout of the first.
    /// # Cost
    /// One copy, and the changes of layout.
    /// # Errors
    /// [`Error::Invalid`] for no values, for rows, for a dim that does not exist, and when types or other dims differ;
    /// those of the collectives.
    pub fn concat(parts: &[&DTensor], dim: usize) -> Result<DTensor> {
        let Some(first) = parts.first() else {
            return Err(Error::invalid("concat", "no values", "at least one"));
        };
        let is_last = first.is_last("concat", dim)?;
        let cut = if is_last { None } else { first.cut() };
        let laid = parts.iter().map(|part| part.redistribute(cut, "concat"));
        let laid: Vec<DTensor> = laid.collect::<Result<_>>()?;
        let vars: Vec<&Var> = laid.iter().map(DTensor::var).collect::<Result<_>>()?;
        let var = Var::concat(&vars, dim)?;
        let features = match is_last {
            true => var.tensor().columns(),
            false => first.features(),
        };
        first.with_features(var, features, cut)
    }

    /// The sum over a dim between rows and features, which is removed; for example over the tokens of a text.
    ///
    /// # Cost
    /// A transposed copy, here and in backward.
    /// # Errors
    /// [`Error::Invalid`] for integers, and for the dim of rows, that of features, or one that does not exist.
    pub fn sum_dim(&self, dim: usize) -> Result<DTensor> {
        if self.is_last("sum_dim", dim)? {
            let found = format!("dim {dim} of {}", self.described());
            return Err(Error::invalid(
                "sum_dim",
                found,
                "a dim between rows and features",
            ));
        }
        self.with_features(self.var()?.sum_dim(dim)?, self.features(), self.cut())
    }

    /// The mean over a dim between rows and features, which is removed.
    ///
    /// # Cost
    /// As [`sum_dim`](DTensor::sum_dim).
    /// # Errors
    /// As there.
    pub fn mean_dim(&self, dim: usize) -> Result<DTensor> {
        let sum = self.sum_dim(dim)?;
        sum.scale(1.0 / self.shape()[dim].max(1) as f64)
    }

    /// Rows held here.
    pub(crate) fn num_rows(&self) -> usize {
        self.leading().first().copied().unwrap_or(1)
    }

    /// The dims between rows and features.
    pub(crate) fn inner(&self) -> &[usize] {
        self.leading().get(1..).unwrap_or(&[])
    }

    // Whether a dim counts features; an error if it counts rows or does not exist.
    fn is_last(&self, operation: &str, dim: usize) -> Result<bool> {
        let dims = self.leading().len() + 1;
        match dim > 0 && dim < dims {
            true => Ok(dim + 1 == dims),
            false => {
                let needed = format!(
                    "one from 1 to {}: rows stay where they are",
                    dims.saturating_sub(1)
                );
                Err(Error::invalid(operation, format!("dim {dim}"), needed))
            }
        }
    }
}
