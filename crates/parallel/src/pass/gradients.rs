//! What a pass adds to gradients.

use super::Pass;
use crate::{Parameter, layers::spread::Share};
use grid::Axis;
use tensor::{DType, Error, Result, Tensor};

impl Pass {
    /// The tensor to which an addend to the gradient of `parameter` is added, and the factor of what it holds: 0 for the first
    /// addend, because the tensor still holds an earlier gradient.
    ///
    /// # Errors
    /// As [`check_gradient`](Pass::check_gradient); [`Error::OutOfMemory`].
    pub(crate) fn gradient_of(&self, parameter: &Parameter) -> Result<(Tensor, f64)> {
        self.check_gradient(parameter)?;
        match &self.shared.parameters {
            Some(set) => set.gradient_of(parameter, self.micro_batch),
            None => Ok((parameter.gradient()?, 1.0)),
        }
    }

    /// The type in which gradients travel over Z, where activations are `dtype`.
    pub(crate) fn gradient_wire(&self, dtype: DType) -> DType {
        self.context().settings().gradient_wire.over_z(dtype)
    }

    /// Checks that an addend to the gradient of `parameter` may come now.
    ///
    /// # Errors
    /// [`Error::Invalid`] in an evaluation pass, after the end of its step, and for a parameter of another set
    /// or without memory on this rank.
    pub(crate) fn check_gradient(&self, parameter: &Parameter) -> Result<()> {
        let refuse = |found: &str, needed: &str| {
            let operation = format!("gradient of {}", parameter.name());
            Err(Error::invalid(operation, found, needed))
        };
        match &self.shared.parameters {
            Some(set) if !self.is_training() => {
                let found = if set.options().trains {
                    "a backward through a pass that evaluates"
                } else {
                    "a set made for inference"
                };
                refuse(found, "a pass of a training step")
            }
            Some(set) if !set.holds(parameter) => {
                refuse("a parameter of another set", "one of this set")
            }
            Some(set) if !(self.shared.is_open.get() && set.is_current(self.shared.number)) => {
                refuse("a backward after the end of its step", "one before it")
            }
            _ => parameter.dtype().map(drop),
        }
    }

    /// Records that an addend has been queued into the gradient of `parameter`.
    pub(crate) fn gradient_added(&self, parameter: &Parameter) -> Result<()> {
        match &self.shared.parameters {
            Some(set) => set.note(parameter, self.micro_batch),
            None => Ok(()),
        }
    }

    /// Whether this rank adds to the gradient of `parameter` what it computes from its share of vectors.
    ///
    /// A gradient is summed over an axis whose ranks may compute it from parts of the vectors. Ranks that share none along
    /// the axis compute the same addend, which then counts once.
    pub(crate) fn counts(&self, parameter: &Parameter, share: Share) -> bool {
        let context = self.context();
        [(Axis::X, share.runs), (Axis::Context, share.tokens)]
            .into_iter()
            .all(|(axis, is_own)| {
                is_own || context.index(axis) == 0 || !parameter.sum_axes(context).contains(&axis)
            })
    }

    /// Records an addend of 0 to the gradient of `parameter`.
    ///
    /// # Errors
    /// As [`gradient_of`](Pass::gradient_of).
    pub(crate) fn skip(&self, parameter: &Parameter) -> Result<()> {
        let (gradient, factor) = self.gradient_of(parameter)?;
        if factor == 0.0 {
            gradient.fill(0.0)?;
        }
        self.gradient_added(parameter)
    }
}
