//! Activation recomputation: the results of a part of a model are dropped in forward and recomputed in
//! backward.

use super::DTensor;
use crate::Pass;
use std::rc::Rc;
use tensor::{Result, Var, autograd};

/// The recomputed code: a function of the incoming tensors, shared by the two passes.
pub type Block = Rc<dyn Fn(&Pass, Vec<DTensor>) -> Result<Vec<DTensor>>>;

/// Applies `block`, and keeps only its inputs for the backward pass; nothing, where neither an input nor a parameter of the block has a
/// gradient.
///
/// # Cost
/// A second forward of the block, with its collectives, when backward reaches it.
/// # Errors
/// Those of the block.
pub fn recompute(pass: &Pass, entering: &[DTensor], block: Block) -> Result<Vec<DTensor>> {
    let device = pass.context().device().clone();
    let detached = |wire: &DTensor| wire.like(wire.held_var().detach());
    let inputs: Vec<DTensor> = entering.iter().map(detached).collect();
    let (outputs, keeps) = device.noting_gradients(|| block(pass, inputs.clone()));
    let outputs = outputs?;
    let vars: Vec<&Var> = entering.iter().map(DTensor::held_var).collect();
    let values = outputs.iter().map(|wire| wire.held().clone()).collect();
    let wanted: Vec<bool> = vars.iter().map(|var| var.wants_gradient()).collect();
    let again = pass.backward();
    let recorded = Var::record("recompute", &vars, values, keeps, move |d_outputs| {
        let tracked = inputs.iter().zip(wanted).map(|(wire, wanted)| {
            let value = wire.held().clone();
            let (var, gradient) = match wanted {
                true => {
                    let (var, gradient) = Var::tracked(value);
                    (var, Some(gradient))
                }
                false => (Var::constant(value), None),
            };
            (wire.like(var).in_pass(&again), gradient)
        });
        let (tracked, gradients): (Vec<_>, Vec<_>) = tracked.unzip();
        let outputs = device.with_gradients(|| block(&again, tracked))?;
        let roots = outputs.into_iter().zip(d_outputs);
        let roots = roots.filter_map(|(wire, d_out)| Some((wire.into_held(), d_out?)));
        autograd::backward(roots.collect())?;
        let found = gradients.into_iter();
        Ok(found.map(|gradient| gradient?.take()).collect())
    });
    Ok(outputs
        .iter()
        .zip(recorded)
        .map(|(wire, var)| wire.like(var))
        .collect())
}
