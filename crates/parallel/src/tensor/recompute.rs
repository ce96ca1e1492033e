//! Activation recomputation: a block's inner values are dropped in forward and computed again in backward.

use super::DTensor;
use ::tensor::{Result, Var, autograd};
use std::rc::Rc;

/// What is computed again: a function of one activation, shared by the two passes.
pub type Block = Rc<dyn Fn(&DTensor) -> Result<DTensor>>;

/// Applies `block`, keeping only its input for the backward pass.
///
/// # Cost
/// The block's forward a second time, with its collectives, when backward reaches it.
/// # Errors
/// Those of the block.
pub fn recompute(x: &DTensor, block: Block) -> Result<DTensor> {
    let context = x.context().clone();
    let position = context.position();
    let out = context
        .device()
        .without_gradients(|| block(&x.like(x.var().detach())))?;
    let (features, cut) = (out.features(), out.cut());
    let input = x.like(x.var().detach());
    let (again, device) = (context.clone(), context.device().clone());
    let var = Var::record_one(
        "recompute",
        &[x.var()],
        out.into_var().into_tensor(),
        true,
        move |d_out| {
            let (tracked, gradient) = Var::tracked(input.tensor().clone());
            // Dropout must draw what it drew the first time, wherever the run has got to since.
            let now = again.set_position(position);
            let out = device.with_gradients(|| block(&input.like(tracked)));
            again.set_position(now);
            autograd::backward(vec![(out?.into_var(), d_out)])?;
            Ok(vec![gradient.take()])
        },
    );
    DTensor::new(&context, var, features, cut)
}
