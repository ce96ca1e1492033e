//! The layers of a model.

use parallel::{
    DTensor, Parameter, Pass, Result,
    layers::{self as ops, norm::NormKind},
};
use tensor::Tensor;

/// Y = X W + b.
#[derive(Clone, Debug)]
pub struct Linear(ops::Linear);

impl Linear {
    pub(crate) fn new(layer: ops::Linear) -> Linear {
        Linear(layer)
    }

    /// Its weight.
    pub fn weight(&self) -> &Parameter {
        &self.0.weight
    }

    /// Its bias, if it has one.
    pub fn bias(&self) -> Option<&Parameter> {
        self.0.bias.as_ref()
    }

    /// Applies the layer to the last dim of `x`.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) if its features do not match the layer's input, or if the layer has
    /// no memory on this rank; those of the collectives.
    pub fn forward(&self, x: &DTensor) -> Result<DTensor> {
        Ok(ops::linear(x, &[&self.0])?.swap_remove(0))
    }

    /// Applies the layer and GELU (by its tanh approximation), within the GEMM if the device supports it.
    ///
    /// # Errors
    /// As [`forward`](Linear::forward).
    pub fn forward_gelu(&self, x: &DTensor) -> Result<DTensor> {
        ops::linear_gelu(x, &self.0)
    }

    /// Applies several layers to the same `x`, whose gradient is then reduced once for all.
    ///
    /// # Errors
    /// As [`forward`](Linear::forward).
    pub fn forward_all<const N: usize>(layers: [&Linear; N], x: &DTensor) -> Result<[DTensor; N]> {
        let outputs = ops::linear(x, &layers.map(|layer| &layer.0))?;
        Ok(outputs.try_into().expect("one output for each layer"))
    }
}

/// LayerNorm or RMSNorm of the last dim.
#[derive(Clone, Debug)]
pub struct Norm {
    pub(crate) kind: NormKind,
    pub(crate) gain: Parameter,
    pub(crate) bias: Option<Parameter>,
    pub(crate) epsilon: f64,
}

impl Norm {
    /// Normalises every row of `x` by the statistics of its full features.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) if its features do not match the gain; those of the collectives.
    pub fn forward(&self, x: &DTensor) -> Result<DTensor> {
        ops::norm(x, self.kind, &self.gain, self.bias.as_ref(), self.epsilon)
    }
}

/// A look-up table.
#[derive(Clone, Debug)]
pub struct Embedding {
    pub(crate) table: Parameter,
}

impl Embedding {
    /// The rows with these ids, which belong to this rank and have type u32.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) if `ids` are not u32; those of the collectives.
    pub fn forward(&self, pass: &Pass, ids: &Tensor) -> Result<DTensor> {
        ops::embedding(pass, &self.table, ids)
    }
}
