//! Walks over a module's float parameters, under the names that their place in the module gives them.
//!
//! burn draws the ids of parameters at random, so they differ from rank to rank; places do not.

use crate::{Result, data::Elements};
use burn::{
    module::{ModuleMapper, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Shape, Tensor},
};
use library::collective::GradientReducer;
use std::collections::HashMap;

/// The number of elements of each parameter.
#[derive(Default)]
pub(crate) struct Lengths {
    path: Vec<String>,
    pub(crate) lengths: Vec<(String, usize)>,
}

impl ModuleVisitor for Lengths {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let length = param.lazy_shape().num_elements();
        self.lengths.push((self.path.join("."), length));
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// Moves gradients to a reducer, until one fails.
pub(crate) struct Push<'a> {
    pub(crate) path: Vec<String>,
    pub(crate) gradients: &'a mut GradientsParams,
    pub(crate) reducer: &'a mut GradientReducer,
    pub(crate) shapes: HashMap<String, Shape>,
    pub(crate) outcome: Result<()>,
}

impl ModuleVisitor for Push<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.outcome.is_err() {
            return;
        }
        // A parameter in two places has its gradient under the first.
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return;
        };
        let name = self.path.join(".");
        self.shapes.insert(name.clone(), gradient.shape());
        self.outcome =
            Elements::take(&name, gradient).and_then(|elements| elements.push(self.reducer, &name));
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// Puts reduced gradients back.
pub(crate) struct Put<'a> {
    pub(crate) path: Vec<String>,
    pub(crate) reduced: HashMap<String, (Shape, Elements)>,
    pub(crate) gradients: &'a mut GradientsParams,
}

impl ModuleVisitor for Put<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some((shape, elements)) = self.reduced.remove(&self.path.join(".")) {
            // Gradients live on the device below automatic differentiation.
            let device = param.lazy_device().inner();
            self.gradients
                .register(param.id, elements.tensor::<D>(shape, &device));
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// Replaces the elements of parameters, until one fails.
pub(crate) struct Replace<F> {
    pub(crate) path: Vec<String>,
    pub(crate) work: F,
    pub(crate) outcome: Result<()>,
}

impl<F: FnMut(&str, &mut Elements) -> Result<()>> ModuleMapper for Replace<F> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.outcome.is_err() {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let (shape, device) = (tensor.shape(), tensor.device());
        let (is_autodiff, is_trained) = (tensor.is_autodiff(), tensor.is_require_grad());
        let name = self.path.join(".");
        let inner = if is_autodiff { tensor.inner() } else { tensor };
        let replaced = Elements::take(&name, inner).and_then(|mut elements| {
            (self.work)(&name, &mut elements)?;
            Ok(elements)
        });
        let device = device.inner();
        let inner = match replaced {
            Ok(elements) => elements.tensor::<D>(shape, &device),
            Err(error) => {
                // The caller receives the error and not this module. To keep the values would copy them.
                self.outcome = Err(error);
                Tensor::zeros(shape, &device)
            }
        };
        let tensor = if is_autodiff {
            Tensor::from_inner(inner)
        } else {
            inner
        };
        let tensor = if is_trained {
            tensor.require_grad()
        } else {
            tensor
        };
        Param::from_mapped_value(id, tensor, mapper)
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}
