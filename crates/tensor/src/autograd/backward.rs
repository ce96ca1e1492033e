//! The backward pass.

use super::{
    Var,
    node::{Gradients, Node, NodeOutput},
};
use crate::{Tensor, ops};
use hal::{Error, Result};
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
        let inputs = std::mem::take(&mut *node.inputs.borrow_mut());
        for (place, gradient) in inputs.into_iter().zip(run(gradients)?) {
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
        let (_, gradients) = entry.or_insert_with(|| (node.clone(), vec![None; node.num_outputs]));
        gradients[output] = Some(match gradients[output].take() {
            None => gradient,
            Some(sum) => accumulate(sum, gradient)?,
        });
        Ok(())
    }

    fn next(&mut self) -> Option<(Rc<Node>, Gradients)> {
        self.0.pop_last().map(|(_, entry)| entry)
    }
}

// Adds in place if nobody else holds one of the two.
fn accumulate(sum: Tensor, gradient: Tensor) -> Result<Tensor> {
    let (into, other) = match (sum.is_unshared(), gradient.is_unshared()) {
        (true, _) => (sum, gradient),
        (_, true) => (gradient, sum),
        _ => return ops::add(&sum, &gradient),
    };
    ops::axpby(1.0, &other, 1.0, &into)?;
    Ok(into)
}
