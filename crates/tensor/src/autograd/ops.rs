//! Differentiable elementwise operations.

use super::Var;
use crate::{
    Tensor,
    ops::{self, BinaryOp, UnaryOp},
};
use hal::Result;

impl Var {
    /// `self + other`.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) with both tensors for other shapes or types; also for integers.
    pub fn add(&self, other: &Var) -> Result<Var> {
        let out = ops::add(self.tensor(), other.tensor())?;
        Ok(Var::record_one(
            "add",
            &[self, other],
            out,
            false,
            |d_out| Ok(vec![Some(d_out.clone()), Some(d_out)]),
        ))
    }

    /// `self - other`.
    ///
    /// # Errors
    /// As [`add`](Var::add).
    pub fn sub(&self, other: &Var) -> Result<Var> {
        let out = ops::binary(BinaryOp::Sub, self.tensor(), other.tensor())?;
        Ok(Var::record_one(
            "sub",
            &[self, other],
            out,
            false,
            |d_out| {
                let negative = scaled(-1.0, &d_out)?;
                Ok(vec![Some(d_out), Some(negative)])
            },
        ))
    }

    /// `self * other`, element by element.
    ///
    /// # Errors
    /// As [`add`](Var::add).
    pub fn mul(&self, other: &Var) -> Result<Var> {
        let (a, b) = (self.tensor().clone(), other.tensor().clone());
        let out = ops::binary(BinaryOp::Mul, &a, &b)?;
        Ok(Var::record_one(
            "mul",
            &[self, other],
            out,
            false,
            move |d_out| {
                let d_a = ops::binary(BinaryOp::Mul, &d_out, &b)?;
                let d_b = ops::binary(BinaryOp::Mul, &d_out, &a)?;
                Ok(vec![Some(d_a), Some(d_b)])
            },
        ))
    }

    /// `self / other`, element by element.
    ///
    /// # Errors
    /// As [`add`](Var::add).
    pub fn div(&self, other: &Var) -> Result<Var> {
        let (a, b) = (self.tensor(), other.tensor().clone());
        let out = ops::binary(BinaryOp::Div, a, &b)?;
        let quotient = out.clone();
        Ok(Var::record_one(
            "div",
            &[self, other],
            out,
            false,
            move |d_out| {
                let d_a = ops::binary(BinaryOp::Div, &d_out, &b)?;
                let product = ops::binary(BinaryOp::Mul, &d_a, &quotient)?;
                let d_b = scaled(-1.0, &product)?;
                Ok(vec![Some(d_a), Some(d_b)])
            },
        ))
    }

    /// The square of every element.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for integers.
    pub fn square(&self) -> Result<Var> {
        let x = self.tensor().clone();
        let out = ops::binary(BinaryOp::Mul, &x, &x)?;
        Ok(Var::record_one(
            "square",
            &[self],
            out,
            false,
            move |d_out| {
                let product = ops::binary(BinaryOp::Mul, &d_out, &x)?;
                Ok(vec![Some(scaled(2.0, &product)?)])
            },
        ))
    }

    /// `factor * self`.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for integers.
    pub fn scale(&self, factor: f64) -> Result<Var> {
        let out = scaled(factor, self.tensor())?;
        Ok(Var::record_one(
            "scale",
            &[self],
            out,
            false,
            move |d_out| Ok(vec![Some(scaled(factor, &d_out)?)]),
        ))
    }

    /// `self + addend`, in every element.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for integers.
    pub fn shift(&self, addend: f64) -> Result<Var> {
        let x = self.tensor();
        let out = Tensor::full(x.device(), x.dtype(), x.shape(), addend)?;
        ops::axpby(1.0, x, 1.0, &out)?;
        Ok(Var::record_one("shift", &[self], out, false, |d_out| {
            Ok(vec![Some(d_out)])
        }))
    }

    /// `op(self)`, element by element.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for integers.
    pub fn unary(&self, op: UnaryOp) -> Result<Var> {
        let x = self.tensor().clone();
        let out = ops::unary(op, &x)?;
        let backward = move |d_out| Ok(vec![Some(ops::unary_backward(op, &x, d_out)?)]);
        Ok(Var::record_one("unary", &[self], out, false, backward))
    }

    /// `silu(self) * up`.
    ///
    /// # Errors
    /// As [`add`](Var::add).
    pub fn swiglu(&self, up: &Var) -> Result<Var> {
        let (gate, up_tensor) = (self.tensor().clone(), up.tensor().clone());
        let out = ops::swiglu(&gate, &up_tensor)?;
        Ok(Var::record_one(
            "swiglu",
            &[self, up],
            out,
            false,
            move |d_out| {
                let (d_gate, d_up) = ops::swiglu_backward(&gate, &up_tensor, &d_out)?;
                Ok(vec![Some(d_gate), Some(d_up)])
            },
        ))
    }
}

pub(super) fn scaled(factor: f64, x: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    ops::axpby(factor, x, 0.0, &out)?;
    Ok(out)
}
