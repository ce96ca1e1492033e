//! The function inside the MLP.

use parallel::{DTensor, Result};
use serde::{Deserialize, Serialize};
use tensor::ops::UnaryOp;
use train::config::KeyType;

/// The function inside the MLP, of the gate where the family has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// That of the family.
    #[default]
    Family,
    /// GELU by its definition.
    Gelu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// x * sigmoid(x).
    Silu,
}

impl Activation {
    /// The function of `x`. That of a family is known before a layer is made.
    pub(super) fn of(self, x: &DTensor) -> Result<DTensor> {
        x.unary(match self {
            Activation::Gelu => UnaryOp::GeluErf,
            Activation::GeluTanh => UnaryOp::Gelu,
            Activation::Silu => UnaryOp::Silu,
            Activation::Family => unreachable!("a bug: a layer without its family's function"),
        })
    }

    /// The function of `gate`, times `up`.
    pub(super) fn gated(self, gate: &DTensor, up: &DTensor) -> Result<DTensor> {
        match self {
            Activation::Silu => gate.swiglu(up),
            other => other.of(gate)?.mul(up),
        }
    }
}

impl KeyType for Activation {
    fn values() -> String {
        "`family`, `gelu`, `gelu-tanh` or `silu`".to_owned()
    }
}
