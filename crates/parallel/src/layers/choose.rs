//! Selects rows by a mask or by ids, and turns ids into rows.

use super::DTensor;
use crate::Pass;
use tensor::{DType, Error, Result, Tensor, Var, ops};

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
        let other = other.redistribute(self.cut(), "select")?;
        Ok(self.like(self.var().select(mask, other.var())?))
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
    /// [`Error::Invalid`] for other shapes.
    pub fn gather(&self, ids: &Tensor) -> Result<DTensor> {
        let ([n], [rows, _]) = (self.inner(), ids.shape()) else {
            let found = format!("ids {ids:?} into {:?}", self.tensor());
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
        let chosen = Var::constant(ops::one_hot(ids, *n, self.tensor().dtype())?);
        let var = chosen.matmul_batched(self.var(), false)?;
        self.with_features(var, self.features(), self.cut())
    }

    /// A constant with a vector per id: 1 at the id and 0 elsewhere; all zeros for ids of at least `classes`.
    ///
    /// # Shapes
    /// `ids`: rows x inner, u32. The result: rows x inner x classes, uncut.
    /// # Errors
    /// [`Error::Invalid`] for ids of another type, and for 0 classes.
    pub fn one_hot(pass: &Pass, ids: &Tensor, classes: usize, dtype: DType) -> Result<DTensor> {
        if classes == 0 {
            return Err(Error::invalid("one_hot", "0 classes", "at least 1"));
        }
        Ok(DTensor::input(pass, ops::one_hot(ids, classes, dtype)?))
    }
}
