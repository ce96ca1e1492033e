//! A tensor with its layout on the grid.

use super::spread::{Share, Spread};
use crate::{Context, Pass, work::Place};
use grid::{Axis, Layout};
use std::{cell::OnceCell, fmt, rc::Rc};
use tensor::{DType, Error, Result, Tensor, Var};

/// An activation: rows (sequences, samples) cut over Data and Z, and features cut over one axis or not at all.
///
/// The first dim counts local rows, and the last one local features. Ranks along an axis that cuts neither hold
/// the same elements; but ranks of Context may hold parts of every sequence, and under sequence parallelism ranks of X
/// runs of the vectors.
#[derive(Clone)]
pub struct DTensor {
    // What this rank holds: all vectors of its rows, or a matrix of its run of them.
    var: Var,
    pass: Pass,
    features: usize,
    cut: Option<Axis>,
    spread: Option<Spread>,
    // All vectors, once something has asked for them.
    all: Rc<OnceCell<Var>>,
}

impl DTensor {
    /// Input data: full features of this rank's rows, of which a rank of Context keeps its tokens.
    ///
    /// # Shapes
    /// `tensor`: rows x features, or rows x tokens x features.
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn input(pass: &Pass, tensor: Tensor) -> Result<DTensor> {
        let features = tensor.columns();
        let whole = DTensor::new(pass, Var::constant(tensor), features, None)?;
        let tokens = Share {
            tokens: pass.cuts_tokens(),
            runs: false,
        };
        let spread = Spread::of(pass.context(), whole.leading(), tokens);
        whole.spread_as(spread.as_ref())
    }

    /// A value whose last dim is this rank's piece of `features`, cut by `cut`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cut by another axis than X and Y, and if the size of the piece does not match the cut.
    pub fn new(pass: &Pass, var: Var, features: usize, cut: Option<Axis>) -> Result<DTensor> {
        DTensor::spread_over(pass, var, (features, cut), None)
    }

    /// The same, with this rank's run of its vectors, if they are spread.
    ///
    /// # Errors
    /// As [`new`](DTensor::new).
    pub(crate) fn spread_over(
        pass: &Pass,
        var: Var,
        (features, cut): (usize, Option<Axis>),
        spread: impl Into<Option<Spread>>,
    ) -> Result<DTensor> {
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
            spread: spread.into(),
            all: Rc::default(),
        })
    }

    /// The value of all vectors of this rank's rows, with its place on the tape.
    ///
    /// # Cost
    /// None; the first time, an all-gather over Context and over X, if ranks along them hold parts of the vectors.
    /// # Errors
    /// Those of the collective.
    pub fn var(&self) -> Result<&Var> {
        if self.spread.is_none() {
            return Ok(&self.var);
        }
        match self.all.get() {
            Some(all) => Ok(all),
            None => {
                let all = self.gathered()?;
                Ok(self.all.get_or_init(|| all))
            }
        }
    }

    /// Takes the value; if no other handle to it exists, its memory may then be overwritten.
    ///
    /// # Errors
    /// As [`var`](DTensor::var).
    pub fn into_var(self) -> Result<Var> {
        match self.spread {
            None => Ok(self.var),
            Some(_) => self.var().cloned(),
        }
    }

    /// The tensor of all vectors of this rank's rows; [`shape`](DTensor::shape) and [`dtype`](DTensor::dtype) need none.
    ///
    /// # Cost
    /// As [`var`](DTensor::var).
    /// # Errors
    /// As there.
    pub fn tensor(&self) -> Result<&Tensor> {
        self.var().map(Var::tensor)
    }

    /// What this rank holds: a matrix of its run of the vectors, if they are spread.
    pub(crate) fn held(&self) -> &Tensor {
        self.var.tensor()
    }

    /// Every tensor that this value holds.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.var)
            .chain(self.all.get())
            .map(Var::tensor)
    }

    /// The same with its place on the tape.
    pub(crate) fn held_var(&self) -> &Var {
        &self.var
    }

    /// Takes what this rank holds.
    pub(crate) fn into_held(self) -> Var {
        self.var
    }

    /// Along which axes ranks hold parts of the vectors.
    pub(crate) fn share(&self) -> Share {
        self.spread.as_ref().map_or(Share::NONE, Spread::share)
    }

    /// The vectors of which this rank holds a part, if they are spread.
    pub(crate) fn spread(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }

    /// The dims of this rank's rows: their number, those in between, and all features, even if an axis cuts them.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.leading().to_vec();
        shape.push(self.features);
        shape
    }

    /// The dims before the features, of all vectors.
    pub(crate) fn leading(&self) -> &[usize] {
        match &self.spread {
            Some(spread) => spread.leading(),
            None => {
                let shape = self.held().shape();
                &shape[..shape.len().saturating_sub(1)]
            }
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.held().dtype()
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
        let mut dims = vec![Vec::new(); (self.leading().len() + 1).max(2)];
        dims[0] = vec![Axis::Data, Axis::Z];
        for axis in self.share().axes() {
            dims[usize::from(axis == Axis::Context)].push(axis);
        }
        *dims.last_mut().expect("two dims at least") = self.cut.into_iter().collect();
        Layout::cut(dims).expect("each axis cuts once")
    }

    /// The same value in another pass over the same rows: the backward half of this pass.
    pub(crate) fn in_pass(&self, pass: &Pass) -> DTensor {
        DTensor {
            pass: pass.clone(),
            ..self.clone()
        }
    }

    /// Another value of all vectors of the same rows, of `features` cut by `cut`.
    pub(crate) fn with_features(
        &self,
        var: Var,
        features: usize,
        cut: Option<Axis>,
    ) -> Result<DTensor> {
        if let Some(ledger) = self.pass.ledger() {
            let place = Place {
                cut,
                runs: false,
                tokens: false,
            };
            ledger.elements(place, var.tensor().num_elements());
        }
        DTensor::new(&self.pass, var, features, cut)
    }

    /// Another value of the same layout: of the vectors that this rank holds, or of all of them.
    pub(crate) fn like(&self, var: Var) -> DTensor {
        if let Some(ledger) = self.pass.ledger() {
            ledger.elements(self.place(), var.tensor().num_elements());
        }
        self.unnoted(var)
    }

    /// The same, which counts as no work of its own.
    pub(crate) fn unnoted(&self, var: Var) -> DTensor {
        // A run never has as many vectors as all runs together.
        let is_run = var.tensor().num_rows() == self.held().num_rows();
        DTensor {
            var,
            spread: self.spread.clone().filter(|_| is_run),
            all: Rc::default(),
            ..self.clone()
        }
    }

    /// How its elements lie on ranks.
    pub(crate) fn place(&self) -> Place {
        let Share { tokens, runs } = self.share();
        Place {
            cut: self.cut,
            runs,
            tokens,
        }
    }

    /// The shape held here, with whole features, and the layout.
    pub(crate) fn described(&self) -> String {
        format!("{:?} of layout {}", self.shape(), self.layout())
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
