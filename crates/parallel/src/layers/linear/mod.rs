//! Linear layers on the grid, Y = X W + b with X of m x k and W of k x n, by AxoNN's 3D algorithm.
//!
//! | step | operation | axis, of a normal layer | elements of the whole buffer |
//! |---|---|---|---|
//! | forward 1 | all-gather W | Z | k n / (Gx Gy) |
//! | forward 2 | local GEMM | - | |
//! | forward 3 | all-reduce of partial Y | Y | m n / (Gz Gdata Gx) |
//! | backward 1 | all-gather W again, unless kept | Z | k n / (Gx Gy) |
//! | backward 2 | dX = dY W^T, all-reduce | X | m k / (Gz Gdata Gy) |
//! | backward 3 | dW = X^T dY, reduce-scatter | Z | k n / (Gx Gy) |
//!
//! Under sequence parallelism an all-reduce over X is a reduce-scatter of vectors; the layers that read them begin with
//! their all-gather, forward and, unless a recomputation has just gathered them, again for dW.
//!
//! A transposed layer swaps X and Y. With only Gx this is Megatron-LM's 1D scheme; with only Gz the weights are
//! fully sharded. Source: arXiv:2502.08145, section V; arXiv:2305.13525.

mod backward;
mod forward;

pub use forward::{linear, linear_gelu, linear_onto, linear_seeing};

use crate::{Init, Parameter, parameter::Scope};
use grid::{Axis, Layout};
use tensor::{Result, ops::Transpose};

/// The axis over which a layer contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKind {
    /// Reads features cut by Y, emits features cut by X.
    Normal,
    /// Reads features cut by X, emits features cut by Y.
    Transposed,
}

impl LinearKind {
    /// The axis that cuts the features that the layer reads.
    pub const fn reads(self) -> Axis {
        match self {
            LinearKind::Normal => Axis::Y,
            LinearKind::Transposed => Axis::X,
        }
    }

    /// The axis that cuts the features that the layer emits.
    pub const fn emits(self) -> Axis {
        match self {
            LinearKind::Normal => Axis::X,
            LinearKind::Transposed => Axis::Y,
        }
    }

    /// The other kind.
    pub const fn other(self) -> LinearKind {
        match self {
            LinearKind::Normal => LinearKind::Transposed,
            LinearKind::Transposed => LinearKind::Normal,
        }
    }
}

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// in x out: rows are input features.
    InOut,
    /// out x in: rows are output features, as in a look-up table that serves as the head.
    OutIn,
}

impl Storage {
    // The transposition of the weight in Y = X W.
    fn forward(self) -> Transpose {
        match self {
            Storage::InOut => Transpose::None,
            Storage::OutIn => Transpose::Second,
        }
    }

    // The transposition of the weight in dX = dY W^T.
    fn backward(self) -> Transpose {
        match self {
            Storage::InOut => Transpose::Second,
            Storage::OutIn => Transpose::None,
        }
    }
}

/// Weight and bias of a linear layer, and how they are cut.
#[derive(Clone, Debug)]
pub struct Linear {
    /// in x out or out x in; see [`Storage`].
    pub weight: Parameter,
    /// out, if there is one.
    pub bias: Option<Parameter>,
    /// The axis over which the layer contracts.
    pub kind: LinearKind,
    /// How the weight is stored.
    pub storage: Storage,
    /// Number of output features.
    pub out_features: usize,
}

impl Linear {
    /// Declares the parameters `{name}.weight` (in x out) and `{name}.bias`.
    ///
    /// # Errors
    /// As [`Parameter::declare`].
    pub fn declare(
        scope: &Scope,
        name: &str,
        in_features: usize,
        out_features: usize,
        kind: LinearKind,
        init: Init,
        with_bias: bool,
    ) -> Result<Linear> {
        let layout = layout(vec![vec![kind.reads(), Axis::Z], vec![kind.emits()]]);
        let shape = [in_features, out_features];
        let weight =
            Parameter::declare(scope, &format!("{name}.weight"), &shape, layout, init, true)?;
        weight.set_hidden_matrix(!scope.output)?;
        let declare_bias = || {
            let layout = layout_of_bias(kind);
            Parameter::declare(
                scope,
                &format!("{name}.bias"),
                &[out_features],
                layout,
                Init::Constant(0.0),
                false,
            )
        };
        let bias = with_bias.then(declare_bias).transpose()?;
        Ok(Linear {
            weight,
            bias,
            kind,
            storage: Storage::InOut,
            out_features,
        })
    }

    /// Number of input features.
    pub fn in_features(&self) -> usize {
        self.weight.global_shape()[match self.storage {
            Storage::InOut => 0,
            Storage::OutIn => 1,
        }]
    }

    // Whether its weight or its bias has a gradient.
    fn is_trained(&self) -> bool {
        let bias = self.bias.as_ref();
        !self.weight.is_frozen() || bias.is_some_and(|bias| !bias.is_frozen())
    }

    /// A normal layer over a table of out x in, such as that of an embedding.
    pub fn over_table(table: &Parameter) -> Linear {
        let out_features = table.global_shape()[0];
        Linear {
            weight: table.clone(),
            bias: None,
            kind: LinearKind::Normal,
            storage: Storage::OutIn,
            out_features,
        }
    }
}

fn layout(dims: Vec<Vec<Axis>>) -> Layout {
    Layout::cut(dims).expect("X, Y and Z cut one dim each")
}

fn layout_of_bias(kind: LinearKind) -> Layout {
    layout(vec![vec![kind.emits()]])
}
