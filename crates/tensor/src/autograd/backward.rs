//! The backward pass.

use super::{
    Var,
    node::{Adding, Backward, Gradients, Node, NodeOutput, Sums},
};
use crate::{Tensor, ops};
use hal::{DType, Error, Result};
use std::{collections::BTreeMap, rc::Rc};

/// Propagates gradients from `roots`, each with the gradient of its value, to all leaves.
///
/// Every node runs once, after all gradients of its outputs have arrived.
///
/// # Errors
/// [`Error::Invalid`] if a gradient and its value differ in size, or a backward pass has already used the tape;
/// whatever an operation's own backward reports.
pub fn backward(roots: Vec<(Var, Tensor)>) -> Result<()> {
    let mut pending = Pending::default();
    for (root, gradient) in roots {
        if gradient.num_elements() != root.tensor().num_elements() {
            let needed = format!("as many elements as {:?}", root.tensor());
            return Err(Error::invalid(
                "backward",
                format!("gradient {gradient:?}"),
                needed,
            ));
        }
        if let Some(place) = root.place {
            pending.arrive(place, gradient)?;
        }
    }
    while let Some((node, gradients)) = pending.next() {
        let Some(run) = node.backward.borrow_mut().take() else {
            return Err(Error::invalid(
                "backward",
                format!("{} a second time", node.name),
                "each tape run back once",
            ));
        };
        if let Some(saved) = &node.saved {
            saved.arrive()?;
        }
        let inputs = std::mem::take(&mut *node.inputs.borrow_mut());
        let gradients = rounded(&node, gradients)?;
        let gradients = match run {
            Backward::Alone(run) => run(gradients)?,
            Backward::Adding(run) => vec![pending.added(&inputs, gradients, run)?],
        };
        for (place, gradient) in inputs.into_iter().zip(gradients) {
            if let (Some(place), Some(gradient)) = (place, gradient) {
                pending.arrive(place, gradient)?;
            }
        }
    }
    Ok(())
}

// Nodes whose gradients have begun to arrive, by number: inputs always have smaller numbers than the nodes that
// use them.
#[derive(Default)]
struct Pending(BTreeMap<u64, (Rc<Node>, Gradients)>);

impl Pending {
    fn arrive(&mut self, place: NodeOutput, gradient: Tensor) -> Result<()> {
        let NodeOutput { node, output } = place;
        let entry = self.0.entry(node.id);
        let (_, gradients) =
            entry.or_insert_with(|| (node.clone(), vec![None; node.outputs.len()]));
        gradients[output] = Some(match gradients[output].take() {
            None => gradient,
            Some(sum) if node.sums == Sums::Kept => {
                let accumulator = node.outputs[output].accumulator();
                accumulate(converted(sum, accumulator)?, gradient)?
            }
            Some(sum) => accumulate(sum, gradient)?,
        });
        Ok(())
    }

    // The gradient of the one input; with what has arrived for it, if that is summed in the input's type and `run` takes it.
    fn added(
        &mut self,
        inputs: &[Option<NodeOutput>],
        mut gradients: Gradients,
        run: Adding,
    ) -> Result<Option<Tensor>> {
        let Some(gradient) = gradients.pop().flatten() else {
            return Ok(None);
        };
        let sum = inputs.first().and_then(|place| {
            let place = place.as_ref()?;
            let (node, sums) = self.0.get_mut(&place.node.id)?;
            let is_rounded = node.sums == Sums::Rounded;
            let dtype = node.outputs[place.output];
            let sum = &mut sums[place.output];
            let fits = |sum: &Tensor| is_rounded && sum.dtype() == dtype;
            sum.as_ref().is_some_and(fits).then_some(sum)
        });
        run(gradient, sum.unwrap_or(&mut None)).map(Some)
    }

    fn next(&mut self) -> Option<(Rc<Node>, Gradients)> {
        self.0.pop_last().map(|(_, entry)| entry)
    }
}

// The gradients in the types that the node takes.
fn rounded(node: &Node, gradients: Gradients) -> Result<Gradients> {
    if node.sums == Sums::Kept {
        return Ok(gradients);
    }
    let outputs = gradients.into_iter().zip(&node.outputs);
    outputs
        .map(|(gradient, dtype)| gradient.map(|x| converted(x, *dtype)).transpose())
        .collect()
}

// Without another handle to the tensor, so that it can be added to in place.
fn converted(x: Tensor, dtype: DType) -> Result<Tensor> {
    match x.dtype() == dtype {
        true => Ok(x),
        false => ops::cast(&x, dtype),
    }
}

// Adds in place if nobody else holds one of the two; the sum has the wider type.
fn accumulate(sum: Tensor, gradient: Tensor) -> Result<Tensor> {
    if sum.dtype() != gradient.dtype() {
        let (wide, narrow) = match sum.dtype() == gradient.dtype().accumulator() {
            true => (sum, gradient),
            false => (gradient, sum),
        };
        let into = match wide.is_unshared() {
            true => wide,
            false => {
                let copy = Tensor::empty(wide.device(), wide.dtype(), wide.shape())?;
                ops::copy(&wide, &copy)?;
                copy
            }
        };
        ops::axpby(1.0, &narrow, 1.0, &into)?;
        return Ok(into);
    }
    let (into, other) = match (sum.is_unshared(), gradient.is_unshared()) {
        (true, _) => (sum, gradient),
        (_, true) => (gradient, sum),
        _ => return ops::add(&sum, &gradient.reshape(sum.shape())?),
    };
    ops::axpby(1.0, &other, 1.0, &into)?;
    Ok(into)
}
