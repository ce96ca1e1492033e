//! Operations element by element, on any layout.

use super::DTensor;
use tensor::{Error, Result, ops::UnaryOp};

impl DTensor {
    /// The other operand of an operation element by element, in the layout of `self`.
    pub(crate) fn beside(&self, operation: &str, other: &DTensor) -> Result<DTensor> {
        match self.leading() == other.leading() && self.features() == other.features() {
            true => other.redistribute(self.cut(), operation)?.spread_like(self),
            false => {
                let found = format!("{} with {}", self.described(), other.described());
                Err(Error::invalid(operation, found, "equal global shapes"))
            }
        }
    }

    /// `self + other`; first changes `other` to the layout of `self` if they differ.
    ///
    /// # Errors
    /// [`Error::Invalid`] with both shapes and layouts when the global shapes differ, for integers, and for other
    /// types; those of the collective.
    pub fn add(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("add", other)?;
        Ok(self.like(self.held_var().add(other.held_var())?))
    }

    /// `self - other`, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn sub(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("sub", other)?;
        Ok(self.like(self.held_var().sub(other.held_var())?))
    }

    /// `self * other`, element by element, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn mul(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("mul", other)?;
        Ok(self.like(self.held_var().mul(other.held_var())?))
    }

    /// `self / other`, element by element, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn div(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("div", other)?;
        Ok(self.like(self.held_var().div(other.held_var())?))
    }

    /// `-self`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn neg(&self) -> Result<DTensor> {
        self.scale(-1.0)
    }

    /// The square of every element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn square(&self) -> Result<DTensor> {
        Ok(self.like(self.held_var().square()?))
    }

    /// `factor * self`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn scale(&self, factor: f64) -> Result<DTensor> {
        Ok(self.like(self.held_var().scale(factor)?))
    }

    /// `self + addend`, in every element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn shift(&self, addend: f64) -> Result<DTensor> {
        Ok(self.like(self.held_var().shift(addend)?))
    }

    /// `op(self)`, element by element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn unary(&self, op: UnaryOp) -> Result<DTensor> {
        Ok(self.like(self.held_var().unary(op)?))
    }

    /// GELU by its tanh approximation.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn gelu(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Gelu)
    }

    /// max(x, 0).
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn relu(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Relu)
    }

    /// tanh(x).
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn tanh(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Tanh)
    }

    /// 1 / (1 + exp(-x)).
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn sigmoid(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Sigmoid)
    }

    /// exp(x).
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn exp(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Exp)
    }

    /// The natural logarithm of x.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn log(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Log)
    }

    /// The square root of x.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn sqrt(&self) -> Result<DTensor> {
        self.unary(UnaryOp::Sqrt)
    }

    /// `silu(self) * up`, with `up` of the same layout.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn swiglu(&self, up: &DTensor) -> Result<DTensor> {
        let up = self.beside("swiglu", up)?;
        Ok(self.like(self.held_var().swiglu(up.held_var())?))
    }
}
