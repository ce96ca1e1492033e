//! The source of layers for a model's code.

use crate::{
    layers::{Adapter, Embedding, HeadNorm, Linear, Magnitude, Norm},
    tuning::{ADAPTER_LAYERS, ADAPTER_MAGNITUDE, Adapters, Selection, Tuning},
};
use grid::{Axis, Layout};
use parallel::{
    Context, Init, Parameter, Result, Scope,
    layers::{
        self as ops, LinearKind,
        embedding::{self, Rows},
        norm::NormKind,
    },
};
use std::{cell::RefCell, rc::Rc};

/// Declares layers and their parameters, under nested names, for the segments of a model.
///
/// Every rank declares the full model; parameters get memory only on the pipeline stages that hold their
/// segments.
#[derive(Clone)]
pub struct Builder {
    scope: Scope,
    prefix: String,
    parameters: Rc<RefCell<Vec<Parameter>>>,
    selection: Rc<Selection>,
}

/// Options of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearOptions {
    /// The axis that it reads and the one that it emits.
    pub kind: LinearKind,
    /// Whether there is a bias.
    pub bias: bool,
    /// Initial weights; by default uniform in plus or minus 1 / sqrt(in features).
    pub init: Option<Init>,
}

impl Default for LinearOptions {
    fn default() -> Self {
        LinearOptions {
            kind: LinearKind::Normal,
            bias: true,
            init: None,
        }
    }
}

impl Builder {
    /// A builder without layers, for the first segment.
    pub fn new(context: &Context) -> Builder {
        Builder {
            scope: Scope::new(context),
            prefix: String::new(),
            parameters: Rc::default(),
            selection: Rc::default(),
        }
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.scope.context
    }

    /// The same builder, with names that start with `name` and a dot.
    pub fn scope(&self, name: &str) -> Builder {
        Builder {
            prefix: format!("{}{name}.", self.prefix),
            ..self.clone()
        }
    }

    /// The same builder, with layers that belong to that segment of the model.
    pub fn segment(&self, segment: usize) -> Builder {
        let mut builder = self.clone();
        builder.scope.segment = segment;
        builder
    }

    /// The same builder, with parameters in the group of that name, which may have its own learning rate and
    /// weight decay in a trainer.
    pub fn group(&self, name: &str) -> Builder {
        let mut builder = self.clone();
        builder.scope.group = Some(name.into());
        builder
    }

    /// The same builder, with parameters that are not trained: they have no gradient and no optimiser state.
    pub fn frozen(&self) -> Builder {
        let mut builder = self.clone();
        builder.scope.frozen = true;
        builder
    }

    /// The same builder, with linear layers that give the model's output: an optimiser that treats the matrices of hidden
    /// layers in a way of its own, such as Muon, updates theirs like all other parameters.
    pub fn output(&self) -> Builder {
        let mut builder = self.clone();
        builder.scope.output = true;
        builder
    }

    /// The same builder, whose layers and parameters are frozen and adapted by name, whatever the model's code says.
    pub fn tuned(&self, tuning: Tuning) -> Builder {
        Builder {
            selection: Rc::new(Selection::new(tuning)),
            ..self.clone()
        }
    }

    /// That every pattern of the [tuning](Builder::tuned) has selected something, once the model is built.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) with the first that has not.
    pub fn check_tuning(&self) -> Result<()> {
        self.selection.check()
    }

    /// Declares that the builder's segment also uses this parameter.
    pub fn share(&self, parameter: &Parameter) {
        parameter.share_with(self.scope.segment);
    }

    /// A linear layer with bias that reads features cut by Y and emits features cut by X.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) when a size is 0.
    pub fn linear(&self, name: &str, in_features: usize, out_features: usize) -> Result<Linear> {
        self.linear_with(name, in_features, out_features, LinearOptions::default())
    }

    /// A linear layer with bias that reads features cut by X, as [`linear`](Builder::linear) emits them, and
    /// emits features cut by Y. Layers that alternate between the two kinds need no change of layout between
    /// them.
    ///
    /// # Errors
    /// As [`linear`](Builder::linear).
    pub fn linear_transposed(
        &self,
        name: &str,
        in_features: usize,
        out_features: usize,
    ) -> Result<Linear> {
        let options = LinearOptions {
            kind: LinearKind::Transposed,
            ..LinearOptions::default()
        };
        self.linear_with(name, in_features, out_features, options)
    }

    /// A linear layer.
    ///
    /// # Errors
    /// As [`linear`](Builder::linear).
    pub fn linear_with(
        &self,
        name: &str,
        in_features: usize,
        out_features: usize,
        options: LinearOptions,
    ) -> Result<Linear> {
        let LinearOptions { kind, bias, init } = options;
        let init = init.unwrap_or(Init::Uniform(1.0 / (in_features.max(1) as f64).sqrt()));
        let name = format!("{}{name}", self.prefix);
        let mut layer = ops::Linear::declare(
            &self.scope,
            &name,
            in_features,
            out_features,
            kind,
            init,
            bias,
        )?;
        self.register(&layer.weight)?;
        layer.bias.iter().try_for_each(|bias| self.register(bias))?;
        let adapters = self.selection.adapts(&name);
        let adapter =
            adapters.map(|adapters| self.adapter(&name, &mut layer, in_features, adapters));
        Ok(Linear::new(layer, adapter.transpose()?))
    }

    // B is 0 and m has the norms of W, so that an adapted layer begins as it was. No length scales the bias, which is added after.
    fn adapter(
        &self,
        name: &str,
        layer: &mut ops::Linear,
        in_features: usize,
        adapters: &Adapters,
    ) -> Result<Adapter> {
        let declare = |index: usize, from: usize, to: usize, init: Init| {
            let name = format!("{name}.{}", ADAPTER_LAYERS[index]);
            let part = ops::Linear::declare(&self.scope, &name, from, to, layer.kind, init, false)?;
            self.register(&part.weight)?;
            Ok::<_, parallel::Error>(part)
        };
        let spread = Init::Uniform(1.0 / (in_features.max(1) as f64).sqrt());
        let magnitude = adapters.decomposed.then(|| {
            let name = format!("{name}.{ADAPTER_MAGNITUDE}");
            let lengths = Parameter::declare_norms(&self.scope, &name, layer)?;
            self.register(&lengths)?;
            Ok::<_, parallel::Error>(lengths)
        });
        let lengths = magnitude.transpose()?;
        Ok(Adapter {
            down: declare(0, in_features, adapters.rank, spread)?,
            up: declare(1, adapters.rank, layer.out_features, Init::Constant(0.0))?,
            scale: adapters.scale,
            magnitude: lengths.map(|lengths| Magnitude {
                lengths,
                bias: layer.bias.take(),
            }),
        })
    }

    /// A linear layer over a table of out x in, such as a head that shares the embedding's table.
    pub fn linear_over(&self, table: &Embedding) -> Linear {
        self.share(&table.table);
        Linear::new(ops::Linear::over_table(&table.table), None)
    }

    /// A LayerNorm over features cut by Y, like those of a residual stream.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) for 0 features.
    pub fn layer_norm(&self, name: &str, features: usize, epsilon: f64) -> Result<Norm> {
        self.norm(name, features, NormKind::Layer, epsilon)
    }

    /// An RMSNorm over features cut by Y.
    ///
    /// # Errors
    /// As [`layer_norm`](Builder::layer_norm).
    pub fn rms_norm(&self, name: &str, features: usize, epsilon: f64) -> Result<Norm> {
        self.norm(name, features, NormKind::Rms, epsilon)
    }

    /// An RMSNorm over features cut by Y whose factors are 1 + gain, as in Gemma; the gain begins as 0.
    ///
    /// # Errors
    /// As [`layer_norm`](Builder::layer_norm).
    pub fn rms_norm_offset(&self, name: &str, features: usize, epsilon: f64) -> Result<Norm> {
        self.norm(name, features, NormKind::RmsOffset, epsilon)
    }

    fn norm(&self, name: &str, features: usize, kind: NormKind, epsilon: f64) -> Result<Norm> {
        let cut = || Layout::cut(vec![vec![Axis::Y]]).expect("one axis cuts once");
        let declare = |part: &str, value: f64| {
            let name = format!("{name}.{part}");
            self.parameter(&name, &[features], cut(), Init::Constant(value), false)
        };
        let gain = declare("gain", 1.0 - kind.gain_offset())?;
        let bias = (kind == NormKind::Layer)
            .then(|| declare("bias", 0.0))
            .transpose()?;
        Ok(Norm {
            kind,
            gain,
            bias,
            epsilon,
        })
    }

    /// An RMSNorm over the elements of each head of queries or keys, whose features X cuts between heads. All heads have one
    /// gain.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) for heads of 0 elements.
    pub fn head_norm(&self, name: &str, head_size: usize, epsilon: f64) -> Result<HeadNorm> {
        self.norm_of_heads(name, head_size, NormKind::Rms, epsilon)
    }

    /// The same with factors of 1 + gain, as in Gemma 3; the gain begins as 0.
    ///
    /// # Errors
    /// As there.
    pub fn head_norm_offset(&self, name: &str, head_size: usize, epsilon: f64) -> Result<HeadNorm> {
        self.norm_of_heads(name, head_size, NormKind::RmsOffset, epsilon)
    }

    fn norm_of_heads(
        &self,
        name: &str,
        head_size: usize,
        kind: NormKind,
        epsilon: f64,
    ) -> Result<HeadNorm> {
        let init = Init::Constant(1.0 - kind.gain_offset());
        Ok(HeadNorm {
            kind,
            gain: self.row(&format!("{name}.gain"), head_size, init)?,
            epsilon,
        })
    }

    /// A look-up table over a vocabulary, cut over X.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) when a size is 0.
    pub fn embedding(
        &self,
        name: &str,
        rows: usize,
        hidden: usize,
        init: Init,
    ) -> Result<Embedding> {
        self.table(name, rows, Rows::Vocabulary, hidden, init)
    }

    /// A look-up table of positions, of which every rank of X holds a copy.
    ///
    /// # Errors
    /// As [`embedding`](Builder::embedding).
    pub fn positions(
        &self,
        name: &str,
        rows: usize,
        hidden: usize,
        init: Init,
    ) -> Result<Embedding> {
        self.table(name, rows, Rows::Positions, hidden, init)
    }

    fn table(
        &self,
        name: &str,
        rows: usize,
        kind: Rows,
        hidden: usize,
        init: Init,
    ) -> Result<Embedding> {
        let name = format!("{}{name}", self.prefix);
        let table = embedding::declare(&self.scope, &name, rows, kind, hidden, init)?;
        self.register(&table)?;
        Ok(Embedding { table })
    }

    /// A parameter of a custom layer.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) for no dims or one of 0 elements, for a layout with another number
    /// of dims, and for one that cuts by Data or Pipeline, or by Z other than last in the first dim.
    pub fn parameter(
        &self,
        name: &str,
        global_shape: &[usize],
        layout: Layout,
        init: Init,
        decays: bool,
    ) -> Result<Parameter> {
        let name = format!("{}{name}", self.prefix);
        let parameter = Parameter::declare(&self.scope, &name, global_shape, layout, init, decays)?;
        self.register(&parameter)?;
        Ok(parameter)
    }

    /// A parameter of one dim of which every rank holds a full copy, for
    /// [`DTensor::add_row`](parallel::DTensor::add_row) and [`DTensor::mul_row`](parallel::DTensor::mul_row) on
    /// features of any layout.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) for 0 features.
    pub fn row(&self, name: &str, features: usize, init: Init) -> Result<Parameter> {
        self.parameter(name, &[features], Layout::replicated(1), init, false)
    }

    /// A parameter of one number, for [`DTensor::scale_by`](parallel::DTensor::scale_by).
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn scalar(&self, name: &str, value: f64) -> Result<Parameter> {
        self.row(name, 1, Init::Constant(value))
    }

    fn register(&self, parameter: &Parameter) -> Result<()> {
        self.selection.apply(parameter)?;
        self.parameters.borrow_mut().push(parameter.clone());
        Ok(())
    }

    /// All parameters declared so far.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.parameters.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallel::work::dry_context;

    #[test]
    fn layouts_do_not_depend_on_the_order_of_declaration() {
        type Declare = fn(&Builder) -> Result<()>;
        let layers: [Declare; 5] = [
            |builder| builder.linear("linear", 4, 6).map(drop),
            |builder| builder.linear_transposed("transposed", 6, 4).map(drop),
            |builder| builder.layer_norm("norm", 4, 1e-5).map(drop),
            |builder| {
                builder
                    .embedding("table", 8, 4, Init::Normal(1.0))
                    .map(drop)
            },
            |builder| builder.row("row", 4, Init::Constant(0.0)).map(drop),
        ];
        let layouts = |layers: &[Declare]| {
            let builder = Builder::new(&dry_context().unwrap());
            layers.iter().for_each(|layer| layer(&builder).unwrap());
            let parameters = builder.parameters().into_iter();
            let named = parameters.map(|each| (each.name().to_owned(), each.layout().to_string()));
            let mut named: Vec<(String, String)> = named.collect();
            named.sort();
            named
        };
        let expected = layouts(&layers);
        assert_eq!(expected.len(), 8);
        for first in 1..layers.len() {
            let mut turned = layers;
            turned.rotate_left(first);
            assert_eq!(layouts(&turned), expected);
            turned.reverse();
            assert_eq!(layouts(&turned), expected);
        }
    }
}
