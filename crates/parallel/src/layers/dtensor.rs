//! A tensor with its layout on the grid.

use crate::{Context, Pass};
use grid::{Axis, Layout};
use std::fmt;
use tensor::{Error, Result, Tensor, Var, ops::UnaryOp};

/// An activation: rows (sequences, samples) cut over Data and Z, and features cut over one axis or not at all.
///
/// The first dim counts local rows, and the last one local features. Ranks along an axis that cuts neither hold
/// the same elements.
#[derive(Clone)]
pub struct DTensor {
    var: Var,
    pass: Pass,
    features: usize,
    cut: Option<Axis>,
}

impl DTensor {
    /// Input data: full features of this rank's rows.
    pub fn input(pass: &Pass, tensor: Tensor) -> DTensor {
        let features = tensor.columns();
        DTensor {
            var: Var::constant(tensor),
            pass: pass.clone(),
            features,
            cut: None,
        }
    }

    /// A value whose last dim is this rank's piece of `features`, cut by `cut`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cut by another axis than X and Y, and if the size of the piece does not match the cut.
    pub fn new(pass: &Pass, var: Var, features: usize, cut: Option<Axis>) -> Result<DTensor> {
        if let Some(axis) = cut.filter(|axis| !matches!(axis, Axis::X | Axis::Y)) {
            return Err(Error::invalid(
                "layout",
                format!("features cut by {axis}"),
                "x, y or no axis",
            ));
        }
        let context = pass.context();
        let degree = cut.map_or(1, |axis| context.degree(axis));
        let index = cut.map_or(0, |axis| context.index(axis));
        let needed = grid::feature_range(features, degree, index).len();
        if var.tensor().columns() != needed {
            let found = format!("{} columns", var.tensor().columns());
            return Err(Error::invalid(
                "layout",
                found,
                format!("{needed}, piece {index} of {features} in {degree}"),
            ));
        }
        Ok(DTensor {
            var,
            pass: pass.clone(),
            features,
            cut,
        })
    }

    /// The local value, with its place on the tape.
    pub fn var(&self) -> &Var {
        &self.var
    }

    /// Takes the local value; if no other handle to it exists, its memory may then be overwritten.
    pub fn into_var(self) -> Var {
        self.var
    }

    /// The local tensor.
    pub fn tensor(&self) -> &Tensor {
        self.var.tensor()
    }

    /// The pass to which it belongs.
    pub fn pass(&self) -> &Pass {
        &self.pass
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        self.pass.context()
    }

    /// Size of the full last dim.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The axis that cuts the features; `None` if every rank holds them in full.
    pub fn cut(&self) -> Option<Axis> {
        self.cut
    }

    /// Global index of the first local feature.
    pub fn first_feature(&self) -> usize {
        let shard = |axis| {
            grid::feature_range(
                self.features,
                self.context().degree(axis),
                self.context().index(axis),
            )
        };
        self.cut.map_or(0, |axis| shard(axis).start)
    }

    /// The layout over the grid.
    pub fn layout(&self) -> Layout {
        let mut dims = vec![Vec::new(); self.tensor().shape().len().max(2)];
        dims[0] = vec![Axis::Data, Axis::Z];
        *dims.last_mut().expect("two dims at least") = self.cut.into_iter().collect();
        Layout::cut(dims).expect("X or Y, Data and Z cut once each")
    }

    /// The same value in another pass over the same rows: the backward half of this pass.
    pub(crate) fn in_pass(&self, pass: &Pass) -> DTensor {
        DTensor {
            pass: pass.clone(),
            ..self.clone()
        }
    }

    /// Another value of the same rows, of `features` cut by `cut`.
    pub(crate) fn with_features(
        &self,
        var: Var,
        features: usize,
        cut: Option<Axis>,
    ) -> Result<DTensor> {
        if let Some(ledger) = self.pass.ledger() {
            ledger.elements(cut, var.tensor().num_elements());
        }
        DTensor::new(&self.pass, var, features, cut)
    }

    /// Another value of the same layout.
    pub(crate) fn like(&self, var: Var) -> DTensor {
        if let Some(ledger) = self.pass.ledger() {
            ledger.elements(self.cut, var.tensor().num_elements());
        }
        DTensor {
            var,
            ..self.clone()
        }
    }

    /// The other operand of an operation element by element, in the layout of `self`.
    pub(crate) fn beside(&self, operation: &str, other: &DTensor) -> Result<DTensor> {
        let (own, others) = (self.tensor().shape(), other.tensor().shape());
        fn rows(shape: &[usize]) -> Option<&[usize]> {
            shape.split_last().map(|(_, rows)| rows)
        }
        match rows(own) == rows(others) && self.features == other.features {
            true => other.redistribute(self.cut, operation),
            false => {
                let found = format!("{} with {}", self.described(), other.described());
                Err(Error::invalid(operation, found, "equal global shapes"))
            }
        }
    }

    /// The shape held here, with whole features, and the layout.
    pub(crate) fn described(&self) -> String {
        let mut shape = self.tensor().shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = self.features;
        }
        format!("{shape:?} of layout {}", self.layout())
    }

    /// `self + other`; first changes `other` to the layout of `self` if they differ.
    ///
    /// # Errors
    /// [`Error::Invalid`] with both shapes and layouts when the global shapes differ, for integers, and for other
    /// types; those of the collective.
    pub fn add(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("add", other)?;
        Ok(self.like(self.var.add(&other.var)?))
    }

    /// `self - other`, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn sub(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("sub", other)?;
        Ok(self.like(self.var.sub(&other.var)?))
    }

    /// `self * other`, element by element, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn mul(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("mul", other)?;
        Ok(self.like(self.var.mul(&other.var)?))
    }

    /// `self / other`, element by element, with the layout of `self`.
    ///
    /// # Errors
    /// As [`add`](DTensor::add).
    pub fn div(&self, other: &DTensor) -> Result<DTensor> {
        let other = self.beside("div", other)?;
        Ok(self.like(self.var.div(&other.var)?))
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
        Ok(self.like(self.var.square()?))
    }

    /// `factor * self`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn scale(&self, factor: f64) -> Result<DTensor> {
        Ok(self.like(self.var.scale(factor)?))
    }

    /// `self + addend`, in every element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn shift(&self, addend: f64) -> Result<DTensor> {
        Ok(self.like(self.var.shift(addend)?))
    }

    /// `op(self)`, element by element.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; [`Error::OutOfMemory`].
    pub fn unary(&self, op: UnaryOp) -> Result<DTensor> {
        Ok(self.like(self.var.unary(op)?))
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
        Ok(self.like(self.var.swiglu(&up.var)?))
    }
}

impl fmt::Debug for DTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DTensor({:?}, {} features, layout {})",
            self.var,
            self.features,
            self.layout()
        )
    }
}
