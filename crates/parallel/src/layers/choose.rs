//! Selects rows by a mask or by ids, and turns ids into rows.

use super::DTensor;
use tensor::{Error, Result, Tensor, Var, ops};

impl DTensor {
    /// This value where `mask` is not 0, and `other` elsewhere. No gradient flows to values that were not
    /// selected, whatever they hold.
    ///
    /// # Shapes
    /// `mask`: u32, one element for each local vector of features: rows x inner. `other`: as `self`; it is
    /// first changed to the layout of `self`.
    /// # Cost
    /// No collective except the change of layout.
    /// # Errors
    /// [`Error::Invalid`] for another mask, and when shapes differ; those of the collective.
    pub fn select(&self, mask: &Tensor, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("select", other)?;
        Ok(self.like(self.var()?.select(mask, other.var()?)?))
    }

    /// The vectors of each row with these ids; zeros for ids of at least `n`.
    ///
    /// # Shapes
    /// `self`: rows x n x features, in any cut. `ids`: rows x k, u32. The result: rows x k x features, in the
    /// same layout.
    /// # Cost
    /// A matmul of k x n x features per row: meant for a few vectors, such as candidates or patches. No
    /// collective.
    /// # Errors
    /// [`Error::Invalid`] for other shapes, and for ids of another type.
    pub fn gather(&self, ids: &Tensor) -> Result<DTensor> {
        let ([n], [rows, _]) = (self.inner(), ids.shape()) else {
            let found = format!("ids {ids:?} into {}", self.described());
            return Err(Error::invalid(
                "gather",
                found,
                "rows x k ids into rows x n x features",
            ));
        };
        if *rows != self.num_rows() {
            let needed = format!("{} rows", self.num_rows());
            return Err(Error::invalid("gather", format!("ids {ids:?}"), needed));
        }
        let chosen = Var::constant(ops::one_hot(ids, *n, self.dtype())?);
        let var = chosen.matmul_batched(self.var()?, false)?;
        self.with_features(var, self.features(), self.cut())
    }

    /// A constant with the shape, type and layout of this value, such as the targets of logits: 1 at the feature
    /// that the id names and 0 elsewhere; all zeros for ids of at least the number of features.
    ///
    /// # Shapes
    /// `ids`: u32, one for each local vector of features: rows x inner.
    /// # Cost
    /// No collective. If an axis cuts the features, each rank makes the full vectors and keeps its part.
    /// # Errors
    /// [`Error::Invalid`] for ids of another type or number.
    pub fn one_hot(&self, ids: &Tensor) -> Result<DTensor> {
        let x = self.tensor()?;
        let needed = x.num_rows();
        if ids.num_elements() != needed {
            let needed = format!("{needed}, one for each vector of features");
            return Err(Error::invalid("one_hot", format!("ids {ids:?}"), needed));
        }
        let whole = ops::one_hot(ids, self.features(), x.dtype())?;
        let held = match x.columns() == self.features() {
            true => whole,
            false => ops::columns(&whole, self.first_feature(), x.columns())?,
        };
        Ok(self.like(Var::constant(held.reshape(x.shape())?)))
    }
}
