//! A tensor with its place on the tape.

use super::node::{Backward, Gradients, Node, NodeOutput, Sums};
use crate::{Device, Tensor};
use hal::{DType, Result};
use std::{cell::RefCell, fmt, rc::Rc};

/// A tensor that takes part in differentiation.
#[derive(Clone)]
pub struct Var {
    tensor: Tensor,
    pub(super) place: Option<NodeOutput>,
}

/// Where the gradient of a [`tracked`](Var::tracked) tensor arrives.
#[derive(Clone, Debug, Default)]
pub struct Gradient(Rc<RefCell<Option<Tensor>>>);

impl Gradient {
    /// Takes the gradient; `None` if no backward pass has reached the tensor.
    pub fn take(&self) -> Option<Tensor> {
        self.0.borrow_mut().take()
    }
}

impl Var {
    /// A tensor through which no gradient flows.
    pub fn constant(tensor: Tensor) -> Var {
        Var {
            tensor,
            place: None,
        }
    }

    /// A tensor whose gradient is wanted, with the place where it will arrive.
    pub fn tracked(tensor: Tensor) -> (Var, Gradient) {
        let gradient = Gradient::default();
        let cell = gradient.clone();
        let var = Var::leaf(tensor, move |arrived| {
            *cell.0.borrow_mut() = Some(arrived);
            Ok(())
        });
        (var, gradient)
    }

    /// A tensor whose gradient is handed to `arrived`, in the tensor's type and once in a backward pass.
    pub fn leaf(tensor: Tensor, arrived: impl FnOnce(Tensor) -> Result<()> + 'static) -> Var {
        Var::new_leaf(tensor, Sums::Rounded, arrived)
    }

    /// As [`leaf`](Var::leaf), for a tensor whose gradients are summed further, over micro-batches or ranks: an operation
    /// that has summed in the accumulator's type hands its gradient on in that type, so `arrived` gets either of the two.
    pub fn summed_leaf(
        tensor: Tensor,
        arrived: impl FnOnce(Tensor) -> Result<()> + 'static,
    ) -> Var {
        Var::new_leaf(tensor, Sums::Kept, arrived)
    }

    fn new_leaf(
        tensor: Tensor,
        sums: Sums,
        arrived: impl FnOnce(Tensor) -> Result<()> + 'static,
    ) -> Var {
        let (device, outputs) = (tensor.device().clone(), vec![tensor.dtype()]);
        let take = move |mut gradients: Gradients| {
            gradients.pop().flatten().map_or(Ok(()), arrived)?;
            Ok(Vec::new())
        };
        let node = device
            .with_gradients(|| record(&device, "leaf", Vec::new(), outputs, sums, alone(take)));
        Var {
            tensor,
            place: Some(NodeOutput { node, output: 0 }),
        }
    }

    /// Records an operation: `outputs` were computed from `inputs`, and `backward` turns one gradient per
    /// output into one per input.
    ///
    /// Gradients of outputs come in the outputs' types; those of inputs may have the accumulator's type, which is rounded
    /// where the input's own operation does not keep it.
    ///
    /// Nothing is recorded where no input wants a gradient, unless `keeps` says that the operation has parameters of
    /// its own that do; and nothing within [`Device::without_gradients`].
    pub fn record(
        name: &'static str,
        inputs: &[&Var],
        outputs: Vec<Tensor>,
        keeps: bool,
        backward: impl FnOnce(Gradients) -> Result<Gradients> + 'static,
    ) -> Vec<Var> {
        Var::record_with(name, inputs, outputs, keeps, alone(backward))
    }

    fn record_with(
        name: &'static str,
        inputs: &[&Var],
        outputs: Vec<Tensor>,
        keeps: bool,
        backward: Backward,
    ) -> Vec<Var> {
        let Some(device) = outputs.first().map(|tensor| tensor.device().clone()) else {
            return Vec::new();
        };
        let wanted = keeps || inputs.iter().any(|input| input.place.is_some());
        let records = device.0.gradients.get();
        if wanted && !records {
            device.0.skipped.set(true);
        }
        if !wanted || !records {
            return outputs.into_iter().map(Var::constant).collect();
        }
        let places = inputs.iter().map(|input| input.place.clone()).collect();
        let types = outputs.iter().map(Tensor::dtype).collect();
        let node = record(&device, name, places, types, Sums::Rounded, backward);
        let place = |output| {
            Some(NodeOutput {
                node: node.clone(),
                output,
            })
        };
        outputs
            .into_iter()
            .enumerate()
            .map(|(output, tensor)| Var {
                tensor,
                place: place(output),
            })
            .collect()
    }

    /// As [`record`](Var::record), for an operation with one output.
    pub fn record_one(
        name: &'static str,
        inputs: &[&Var],
        output: Tensor,
        keeps: bool,
        backward: impl FnOnce(Tensor) -> Result<Gradients> + 'static,
    ) -> Var {
        let num_inputs = inputs.len();
        let one = move |mut gradients: Gradients| match gradients.pop().flatten() {
            Some(gradient) => backward(gradient),
            None => Ok(vec![None; num_inputs]),
        };
        Var::record(name, inputs, vec![output], keeps, one).swap_remove(0)
    }

    /// As [`record_one`](Var::record_one) with one input, for a backward that can add: its second argument holds what other operations
    /// have found for the gradient of the input, if it is of the input's type; where `backward` takes it, what it returns is the sum.
    /// That sum must have the bits of a sum of both, each rounded to the type.
    pub fn record_adding(
        name: &'static str,
        input: &Var,
        output: Tensor,
        keeps: bool,
        backward: impl FnOnce(Tensor, &mut Option<Tensor>) -> Result<Tensor> + 'static,
    ) -> Var {
        let backward = Backward::Adding(Box::new(backward));
        Var::record_with(name, &[input], vec![output], keeps, backward).swap_remove(0)
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The tensor, without its place on the tape.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// Whether a backward pass from here would reach anything.
    pub fn wants_gradient(&self) -> bool {
        self.place.is_some()
    }

    /// The same value, through which no gradient flows.
    pub fn detach(&self) -> Var {
        Var::constant(self.tensor.clone())
    }

    /// The same value under another shape.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) when the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Var> {
        let before = self.tensor.shape().to_vec();
        let out = self.tensor.reshape(shape)?;
        Ok(self.record_moved("reshape", out, move |d_out| d_out.reshape(&before)))
    }

    /// Records an operation that only moves elements: its backward takes gradients of either type.
    pub(super) fn record_moved(
        &self,
        name: &'static str,
        output: Tensor,
        backward: impl FnOnce(Tensor) -> Result<Tensor> + 'static,
    ) -> Var {
        let device = output.device().clone();
        let Some(place) = self.place.clone().filter(|_| device.0.gradients.get()) else {
            return Var::constant(output);
        };
        let moved = move |mut gradients: Gradients| {
            let gradient = gradients.pop().flatten();
            Ok(vec![gradient.map(backward).transpose()?])
        };
        let (inputs, types) = (vec![Some(place)], vec![output.dtype()]);
        let node = record(&device, name, inputs, types, Sums::Kept, alone(moved));
        Var {
            tensor: output,
            place: Some(NodeOutput { node, output: 0 }),
        }
    }
}

fn alone(backward: impl FnOnce(Gradients) -> Result<Gradients> + 'static) -> Backward {
    Backward::Alone(Box::new(backward))
}

fn record(
    device: &Device,
    name: &'static str,
    inputs: Vec<Option<NodeOutput>>,
    outputs: Vec<DType>,
    sums: Sums,
    backward: Backward,
) -> Rc<Node> {
    let id = device.0.next_node.get();
    device.0.next_node.set(id + 1);
    Rc::new(Node {
        id,
        name,
        inputs: RefCell::new(inputs),
        outputs,
        sums,
        saved: device.0.saving.borrow().clone(),
        backward: RefCell::new(Some(backward)),
    })
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self
            .place
            .as_ref()
            .map_or("constant", |place| place.node.name);
        write!(f, "Var({:?}, {from})", self.tensor)
    }
}
