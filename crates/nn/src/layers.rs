//! The layers of a model.

use parallel::{
    DTensor, Parameter, Pass, Result,
    layers::{self as ops, LowRank, Weight, norm::NormKind},
};
use tensor::Tensor;

/// Y = X W + b, and what an adapter changes if it has one.
#[derive(Clone, Debug)]
pub struct Linear {
    layer: ops::Linear,
    adapter: Option<Adapter>,
}

/// scale (X A) B.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) down: ops::Linear,
    pub(crate) up: ops::Linear,
    pub(crate) scale: f64,
    /// If it is decomposed.
    pub(crate) magnitude: Option<Magnitude>,
}

/// The lengths of the columns of W + scale A B, and the layer's bias, which is added to what they multiply.
#[derive(Clone, Debug)]
pub(crate) struct Magnitude {
    pub(crate) lengths: Parameter,
    pub(crate) bias: Option<Parameter>,
}

impl Adapter {
    // `inner` is X A, whose few features are gathered for B.
    fn added(&self, out: &DTensor, inner: &DTensor) -> Result<DTensor> {
        ops::linear_onto(out, inner, &self.up, self.scale)
    }

    // `norms` are those of the columns of W + scale A B, if their lengths are trained.
    fn applied(&self, out: &DTensor, inner: &DTensor, norms: Option<Tensor>) -> Result<DTensor> {
        let sum = self.added(out, inner)?;
        match (&self.magnitude, norms) {
            (Some(Magnitude { lengths, bias }), Some(norms)) => {
                ops::scale_columns(&sum, norms, lengths, bias.as_ref())
            }
            _ => Ok(sum),
        }
    }
}

impl Linear {
    pub(crate) fn new(layer: ops::Linear, adapter: Option<Adapter>) -> Linear {
        Linear { layer, adapter }
    }

    /// Its weight.
    pub fn weight(&self) -> &Parameter {
        &self.layer.weight
    }

    /// Its bias, if it has one.
    pub fn bias(&self) -> Option<&Parameter> {
        let of_adapter = || self.magnitude()?.bias.as_ref();
        self.layer.bias.as_ref().or_else(of_adapter)
    }

    fn magnitude(&self) -> Option<&Magnitude> {
        self.adapter.as_ref()?.magnitude.as_ref()
    }

    // The norms of the columns of W + scale A B, if their lengths are trained.
    fn norms(&self, pass: &Pass, weight: &Weight) -> Result<Option<Tensor>> {
        let adapter = self.adapter.as_ref();
        let decomposed = adapter.filter(|adapter| adapter.magnitude.is_some());
        let norms = |adapter: &Adapter| {
            let product = LowRank {
                down: &adapter.down,
                up: &adapter.up,
                scale: adapter.scale,
            };
            product.column_norms(pass, &self.layer, weight)
        };
        decomposed.map(norms).transpose()
    }

    /// Applies the layer to the last dim of `x`.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) if its features do not match the layer's input, or if the layer has
    /// no memory on this rank; those of the collectives.
    pub fn forward(&self, x: &DTensor) -> Result<DTensor> {
        let [out] = Linear::forward_all([self], x)?;
        Ok(out)
    }

    /// Applies the layer and GELU (by its tanh approximation), within the GEMM if the device supports it.
    ///
    /// # Errors
    /// As [`forward`](Linear::forward).
    pub fn forward_gelu(&self, x: &DTensor) -> Result<DTensor> {
        match &self.adapter {
            None => ops::linear_gelu(x, &self.layer),
            Some(_) => self.forward(x)?.gelu(),
        }
    }

    /// Applies several layers to the same `x`, whose gradient is then reduced once for all.
    ///
    /// # Errors
    /// As [`forward`](Linear::forward).
    pub fn forward_all<const N: usize>(layers: [&Linear; N], x: &DTensor) -> Result<[DTensor; N]> {
        let adapters = || layers.iter().filter_map(|layer| layer.adapter.as_ref());
        let own = layers.iter().map(|layer| &layer.layer);
        let all: Vec<&ops::Linear> = own.chain(adapters().map(|adapter| &adapter.down)).collect();
        let mut norms: [Option<Tensor>; N] = [const { None }; N];
        let mut outputs = ops::linear_seeing(x, &all, |index, weight| {
            if let Some(layer) = layers.get(index) {
                norms[index] = layer.norms(x.pass(), weight)?;
            }
            Ok(())
        })?;
        let mut inner = outputs.split_off(N).into_iter();
        for ((layer, out), norms) in layers.iter().zip(&mut outputs).zip(norms) {
            if let Some(adapter) = &layer.adapter {
                let inner = inner.next().expect("one for each adapter");
                *out = adapter.applied(out, &inner, norms)?;
            }
        }
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

/// RMSNorm of the elements of each head, with one gain for all heads.
#[derive(Clone, Debug)]
pub struct HeadNorm {
    pub(crate) kind: NormKind,
    pub(crate) gain: Parameter,
    pub(crate) epsilon: f64,
}

impl HeadNorm {
    /// Normalises every head of `x` by statistics of its own.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) if a rank holds a part of a head; those of the collectives.
    pub fn forward(&self, x: &DTensor) -> Result<DTensor> {
        ops::head_norm(x, self.kind, &self.gain, self.epsilon)
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
