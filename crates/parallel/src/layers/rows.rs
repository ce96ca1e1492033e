//! Parameters that apply to every row: a row, or a single number.

use super::DTensor;
use crate::Parameter;
use grid::Axis;
use tensor::{Error, Result, Var};

impl DTensor {
    /// Adds a parameter of one dim to every row.
    ///
    /// # Shapes
    /// `row`: features, either cut like the features or replicated. `self` and the result: rows x inner x
    /// features, cut by the axis that cuts `row`, or as before if none does.
    /// # Cost
    /// In backward, an all-reduce of `row` if it is replicated and the features are cut.
    /// # Errors
    /// [`Error::Invalid`] for another shape, and for a parameter that Z cuts or that has no memory on this rank; those
    /// of the collectives.
    pub fn add_row(&self, row: &Parameter) -> Result<DTensor> {
        let (x, row) = self.beside_row(row)?;
        Ok(x.like(x.held_var().add_row(&row)?))
    }

    /// Multiplies every row by a parameter of one dim, element by element.
    ///
    /// # Shapes
    /// As [`add_row`](DTensor::add_row).
    /// # Cost
    /// As there.
    /// # Errors
    /// As there.
    pub fn mul_row(&self, row: &Parameter) -> Result<DTensor> {
        let (x, row) = self.beside_row(row)?;
        Ok(x.like(x.held_var().mul_row(&row)?))
    }

    /// Multiplies every element by a parameter of one element, such as the gate of a residual branch.
    ///
    /// # Shapes
    /// `factor`: 1, replicated. `self` and the result: any, of the same layout.
    /// # Cost
    /// In backward, an all-reduce of one number over the axis that cuts the features.
    /// # Errors
    /// [`Error::Invalid`] for a parameter of more elements, one that is cut, or one without memory on this rank; those
    /// of the collective.
    pub fn scale_by(&self, factor: &Parameter) -> Result<DTensor> {
        if factor.global_shape().iter().product::<usize>() != 1
            || !factor.layout().axes().is_empty()
        {
            let needed = "a parameter of one element that no axis cuts";
            return Err(Error::invalid("scale_by", format!("{factor:?}"), needed));
        }
        let x = self.in_rows()?;
        Ok(x.like(x.held_var().scale_by(&factor.var_of(&x, x.share())?)?))
    }

    // This value; all its vectors if the sums of gradients need complete rows.
    pub(super) fn in_rows(&self) -> Result<DTensor> {
        match self.pass().sums_by_rows() {
            true => self.spread_as(None),
            false => Ok(self.clone()),
        }
    }

    // This value with the cut of the parameter, and the part of the parameter that applies to it here.
    fn beside_row(&self, row: &Parameter) -> Result<(DTensor, Var)> {
        if row.global_shape() != [self.features()] {
            let needed = format!("one dim of {} features", self.features());
            return Err(Error::invalid(row.name(), format!("{row:?}"), needed));
        }
        let axes = &row.layout().dims()[0];
        let x = match axes.iter().find(|axis| **axis != Axis::Z) {
            Some(axis) => self.redistribute(Some(*axis), row.name())?,
            None => self.clone(),
        };
        let x = x.in_rows()?;
        let var = row.var_of(&x, x.share())?;
        match axes.is_empty() && x.held().columns() != x.features() {
            true => {
                let part = var.slice(0, x.first_feature(), x.held().columns())?;
                Ok((x, part))
            }
            false => Ok((x, var)),
        }
    }
}
