//! Where a model's code gets its layers from.

use crate::layers::{Embedding, Linear, Norm};
use grid::{Axis, Layout};
use parallel::{
    Context, Init, Parameter, Result,
    tensor::{
        self as ops, Kind,
        embedding::{self, Rows},
        norm::NormKind,
    },
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Declares layers and their parameters, under names that nest.
///
/// Linear layers alternate between the two kinds in the order in which they are asked for, so that each reads the
/// layout that the one before emits; [`LinearOptions::kind`] says otherwise where that order is not the model's.
#[derive(Clone)]
pub struct Builder {
    context: Context,
    prefix: String,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    parameters: RefCell<Vec<Parameter>>,
    transposed_next: Cell<bool>,
}

/// Choices for a linear layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearOptions {
    /// Which kind; by default the other one than the last layer's.
    pub kind: Option<Kind>,
    /// Whether there is a bias.
    pub bias: bool,
    /// Initial weights; by default uniform in plus or minus 1 / sqrt(in features).
    pub init: Option<Init>,
}

impl Default for LinearOptions {
    fn default() -> Self {
        LinearOptions {
            kind: None,
            bias: true,
            init: None,
        }
    }
}

impl Builder {
    /// A builder without layers.
    pub fn new(context: &Context) -> Builder {
        Builder {
            context: context.clone(),
            prefix: String::new(),
            shared: Rc::default(),
        }
    }

    /// This rank's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The same builder, whose names begin with `name` and a dot.
    pub fn scope(&self, name: &str) -> Builder {
        Builder {
            prefix: format!("{}{name}.", self.prefix),
            ..self.clone()
        }
    }

    /// A linear layer with bias.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) when a size is 0.
    pub fn linear(&self, name: &str, in_features: usize, out_features: usize) -> Result<Linear> {
        self.linear_with(name, in_features, out_features, LinearOptions::default())
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
        let kind = options
            .kind
            .unwrap_or(match self.shared.transposed_next.get() {
                true => Kind::Transposed,
                false => Kind::Normal,
            });
        self.shared.transposed_next.set(kind == Kind::Normal);
        let init = options
            .init
            .unwrap_or(Init::Uniform(1.0 / (in_features.max(1) as f64).sqrt()));
        let name = format!("{}{name}", self.prefix);
        let layer = ops::Linear::declare(
            &self.context,
            &name,
            in_features,
            out_features,
            kind,
            init,
            options.bias,
        )?;
        self.register(&layer.weight);
        layer.bias.iter().for_each(|bias| self.register(bias));
        Ok(Linear::new(layer))
    }

    /// A LayerNorm over features that Y cuts, as those of a residual stream.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) from the declaration.
    pub fn layer_norm(&self, name: &str, features: usize, epsilon: f64) -> Result<Norm> {
        self.norm(name, features, NormKind::Layer, epsilon)
    }

    /// An RMSNorm, likewise.
    ///
    /// # Errors
    /// As [`layer_norm`](Builder::layer_norm).
    pub fn rms_norm(&self, name: &str, features: usize, epsilon: f64) -> Result<Norm> {
        self.norm(name, features, NormKind::Rms, epsilon)
    }

    fn norm(&self, name: &str, features: usize, kind: NormKind, epsilon: f64) -> Result<Norm> {
        let cut = || Layout::cut(vec![vec![Axis::Y]]).expect("one axis cuts once");
        let declare = |part: &str, value: f64| {
            self.parameter(
                &format!("{name}.{part}"),
                &[features],
                cut(),
                Init::Constant(value),
                false,
            )
        };
        let gain = declare("gain", 1.0)?;
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

    /// A look-up table over a vocabulary, cut over X.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) from the declaration.
    pub fn embedding(
        &self,
        name: &str,
        rows: usize,
        hidden: usize,
        init: Init,
    ) -> Result<Embedding> {
        self.table(name, rows, Rows::Vocabulary, hidden, init)
    }

    /// A look-up table of positions, which every rank of X holds.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) from the declaration.
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
        let table = embedding::declare(&self.context, &name, rows, kind, hidden, init)?;
        self.register(&table);
        Ok(Embedding { table })
    }

    /// A parameter of a layer of one's own.
    ///
    /// # Errors
    /// [`Error::Invalid`](parallel::Error::Invalid) when the layout does not fit the shape.
    pub fn parameter(
        &self,
        name: &str,
        global_shape: &[usize],
        layout: Layout,
        init: Init,
        decays: bool,
    ) -> Result<Parameter> {
        let name = format!("{}{name}", self.prefix);
        let parameter =
            Parameter::declare(&self.context, &name, global_shape, layout, init, decays)?;
        self.register(&parameter);
        Ok(parameter)
    }

    fn register(&self, parameter: &Parameter) {
        self.shared.parameters.borrow_mut().push(parameter.clone());
    }

    /// All parameters declared so far.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.shared.parameters.borrow().clone()
    }
}
