//! Differentiable operations along rows, which are runs of the last dim: sums, softmax, and operations with one
//! row or one number for all rows.

use super::Var;
use crate::{
    Tensor,
    ops::{self, BinaryOp},
};
use hal::{Error, Result};

impl Var {
    /// The sum over the last dim, which keeps one element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers and for a tensor without dims.
    pub fn row_sum(&self) -> Result<Var> {
        let out = ops::row_sum(self.tensor())?;
        let shape = self.tensor().shape().to_vec();
        Ok(Var::record_one(
            "row_sum",
            &[self],
            out,
            false,
            move |d_out| Ok(vec![Some(ops::expand(&d_out, &shape)?)]),
        ))
    }

    /// Repeats the single element of the last dim `columns` times.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the last dim has another number of elements, and for a tensor without dims.
    pub fn expand_columns(&self, columns: usize) -> Result<Var> {
        if self.tensor().columns() != 1 {
            let found = format!("{:?}", self.tensor());
            return Err(Error::invalid("expand_columns", found, "a last dim of 1"));
        }
        let shape = ops::rows::with_columns("expand_columns", self.tensor(), columns)?;
        let out = ops::expand(self.tensor(), &shape)?;
        Ok(Var::record_one(
            "expand_columns",
            &[self],
            out,
            false,
            |d_out| Ok(vec![Some(ops::row_sum(&d_out)?)]),
        ))
    }

    /// The softmax over the last dim.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers.
    pub fn softmax(&self) -> Result<Var> {
        self.softmax_or_log(false)
    }

    /// The logarithm of the softmax over the last dim, accurate even where the softmax itself rounds to 0.
    ///
    /// # Errors
    /// As [`softmax`](Var::softmax).
    pub fn log_softmax(&self) -> Result<Var> {
        self.softmax_or_log(true)
    }

    fn softmax_or_log(&self, log: bool) -> Result<Var> {
        let out = ops::softmax(self.tensor(), log)?;
        let saved = out.clone();
        Ok(Var::record_one(
            "softmax",
            &[self],
            out,
            false,
            move |d_out| Ok(vec![Some(ops::softmax_backward(&saved, &d_out, log)?)]),
        ))
    }

    /// Adds `row` to every row.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers, and if it is not as long as a row, or has another type.
    pub fn add_row(&self, row: &Var) -> Result<Var> {
        let (x, shape) = (self.tensor(), row.tensor().shape().to_vec());
        ops::holds("add_row", "row", row.tensor(), x.columns(), x.dtype())?;
        let out = ops::binary_row(BinaryOp::Add, x, row.tensor())?;
        let wants = row.wants_gradient();
        Ok(Var::record_one(
            "add_row",
            &[self, row],
            out,
            false,
            move |d_out| {
                let d_row = wants.then(|| column_sum(&d_out, &shape)).transpose()?;
                Ok(vec![Some(d_out), d_row])
            },
        ))
    }

    /// Multiplies every row by `row`, element by element.
    ///
    /// # Errors
    /// As [`add_row`](Var::add_row).
    pub fn mul_row(&self, row: &Var) -> Result<Var> {
        let x = self.tensor();
        ops::holds("mul_row", "row", row.tensor(), x.columns(), x.dtype())?;
        self.mul_repeated(row, "mul_row")
    }

    /// `factor * self`, where the factor is itself a value of one element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers, and if `factor` has another number of elements or another type.
    pub fn scale_by(&self, factor: &Var) -> Result<Var> {
        ops::holds(
            "scale_by",
            "factor",
            factor.tensor(),
            1,
            self.tensor().dtype(),
        )?;
        self.mul_repeated(factor, "scale_by")
    }

    // Multiplies by `other`, a row or a number that is repeated along all rows.
    fn mul_repeated(&self, other: &Var, name: &'static str) -> Result<Var> {
        let (x, row) = (self.tensor().clone(), other.tensor().clone());
        let wants = other.wants_gradient();
        let out = ops::binary_row(BinaryOp::Mul, &x, &row)?;
        Ok(Var::record_one(
            name,
            &[self, other],
            out,
            false,
            move |d_out| {
                let d_x = ops::binary_row(BinaryOp::Mul, &d_out, &row)?;
                let sum = || {
                    // One number is the sum of a single column.
                    let columns = row.num_elements();
                    let all = ops::binary(BinaryOp::Mul, &d_out, &x)?
                        .reshape(&[x.num_elements() / columns.max(1), columns])?;
                    column_sum(&all, row.shape())
                };
                Ok(vec![Some(d_x), wants.then(sum).transpose()?])
            },
        ))
    }

    /// The sum over dim `dim`, which must not be the last one and is removed.
    ///
    /// # Cost
    /// A transposed copy, here and in backward.
    /// # Errors
    /// [`Error::Invalid`] for integers, and for the last dim or one that the value does not have.
    pub fn sum_dim(&self, dim: usize) -> Result<Var> {
        let dims = self.tensor().shape().len();
        if dim + 1 >= dims {
            let found = format!("dim {dim} of {:?}", self.tensor());
            return Err(Error::invalid(
                "sum_dim",
                found,
                "a dim before the last one",
            ));
        }
        let mut shape = self.tensor().shape().to_vec();
        shape.remove(dim);
        let others = (0..dims).filter(|other| *other != dim);
        let order: Vec<usize> = others.chain([dim]).collect();
        self.permute(&order)?.row_sum()?.reshape(&shape)
    }
}

// In the accumulator's type, in which it is summed: the tape rounds it where that is not wanted.
fn column_sum(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let sum = Tensor::empty(x.device(), x.dtype().accumulator(), shape)?;
    ops::column_sum_into(x, &sum, 0.0)?;
    Ok(sum)
}
