//! What a stage does in a step: passes of micro-batches through its chunks, and the messages between stages.

use crate::{Context, DTensor, Group, Purpose, counters::Subject, tensor::Loss};
use ::tensor::{
    DType, Error, Result, Stream, Tensor, Var,
    autograd::{self, Gradient},
};
use grid::Axis;
use std::{collections::HashMap, rc::Rc};

/// The part of a model that one stage runs: one or more chunks of consecutive layers.
pub trait Stages {
    /// Runs a chunk on a micro-batch. The model's first chunk gets no input and reads the data.
    ///
    /// # Errors
    /// Whatever a layer reports.
    fn forward(&self, micro_batch: usize, chunk: usize, input: Option<DTensor>) -> Result<Output>;

    /// What flows into any chunk but the model's first.
    fn activation(&self) -> Activation;
}

/// What a chunk gives.
#[derive(Debug)]
pub enum Output {
    /// The input of the next chunk.
    Activation(DTensor),
    /// The loss of the micro-batch, from the model's last chunk.
    Loss(Loss),
    /// Its logits, where the model is run for those.
    Logits(DTensor),
}

/// Shape and layout of what flows between chunks, on this rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Local shape.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// Size of the whole last dim.
    pub features: usize,
    /// The axis that cuts it.
    pub cut: Option<Axis>,
}

pub(super) type Task = (usize, usize); // micro-batch, chunk

struct InFlight {
    input: Option<Gradient>,
    output: Var,
    is_loss: bool,
}

/// One stage in the midst of a step.
pub(super) struct Stage<'a> {
    pub(super) context: &'a Context,
    model: &'a dyn Stages,
    d_loss: &'a Tensor,
    num_chunks: usize,
    in_flight: HashMap<Task, InFlight>,
    activations: HashMap<Task, Tensor>,
    gradients: HashMap<Task, Tensor>,
    losses: Vec<(usize, Tensor)>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        context: &'a Context,
        model: &'a dyn Stages,
        num_chunks: usize,
        d_loss: &'a Tensor,
    ) -> Result<Self> {
        // Joining a group waits for the other stages: all join here, before any of them waits for a message.
        context.group(Axis::Pipeline, Purpose::Activation)?;
        context.group(Axis::Pipeline, Purpose::Gradient)?;
        let (in_flight, activations, gradients) = Default::default();
        Ok(Stage {
            context,
            model,
            d_loss,
            num_chunks,
            in_flight,
            activations,
            gradients,
            losses: Vec::new(),
        })
    }

    /// Runs a chunk forward on what has been received, or handed over, for it.
    pub(super) fn forward(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let task = (micro_batch, chunk);
        let first = chunk == 0 && self.context.index(Axis::Pipeline) == 0;
        let (input, gradient) = if first {
            (None, None)
        } else {
            self.input(task)?
        };
        let output = self.model.forward(micro_batch, chunk, input)?;
        let (output, is_loss) = match output {
            Output::Activation(out) => (out.into_var(), false),
            Output::Loss(loss) => (loss.var, true),
            Output::Logits(_) => {
                return Err(Error::invalid(
                    "training",
                    "a model that gives logits",
                    "its loss",
                ));
            }
        };
        if is_loss {
            self.losses.push((micro_batch, output.tensor().clone()));
        } else if self.hands_over() {
            self.activations
                .insert((micro_batch, chunk + 1), output.tensor().clone());
        }
        self.in_flight.insert(
            task,
            InFlight {
                input: gradient,
                output,
                is_loss,
            },
        );
        Ok(())
    }

    /// Runs a chunk backward from the gradient that has been received, or handed over, or from the loss.
    pub(super) fn backward(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let task = (micro_batch, chunk);
        let flight = self
            .in_flight
            .remove(&task)
            .ok_or_else(|| out_of_order("backward", task))?;
        let d_output = match flight.is_loss {
            true => self.d_loss.clone(),
            false => self
                .gradients
                .remove(&task)
                .ok_or_else(|| out_of_order("backward", task))?,
        };
        self.context
            .in_backward(|| autograd::backward(vec![(flight.output, d_output)]))?;
        let Some(d_input) = flight.input.and_then(|gradient| gradient.take()) else {
            return Ok(());
        };
        // Handed to the chunk before on this stage, or kept for the message to the stage before.
        let to = if self.hands_over() {
            (micro_batch, chunk - 1)
        } else {
            task
        };
        self.gradients.insert(to, d_input);
        Ok(())
    }

    /// Queues the message with a chunk's output.
    pub(super) fn send_activation(
        &mut self,
        micro_batch: usize,
        chunk: usize,
        to: usize,
    ) -> Result<()> {
        let task = (micro_batch, chunk);
        let flight = self
            .in_flight
            .get(&task)
            .ok_or_else(|| out_of_order("send of an activation", task))?;
        let (group, stream) = self.channel(Purpose::Activation, "send activations")?;
        group.send(
            self.context,
            Subject::Pipeline,
            &stream,
            flight.output.tensor(),
            to,
        )
    }

    /// Queues the message with the gradient of a chunk's input.
    pub(super) fn send_gradient(
        &mut self,
        micro_batch: usize,
        chunk: usize,
        to: usize,
    ) -> Result<()> {
        let task = (micro_batch, chunk);
        let gradient = self
            .gradients
            .remove(&task)
            .ok_or_else(|| out_of_order("send of a gradient", task))?;
        let (group, stream) = self.channel(Purpose::Gradient, "send gradients")?;
        group.send(self.context, Subject::Pipeline, &stream, &gradient, to)
    }

    /// Queues the receipt of a chunk's input; work that reads it waits by itself.
    pub(super) fn recv_activation(
        &mut self,
        micro_batch: usize,
        chunk: usize,
        from: usize,
    ) -> Result<Stream> {
        let (group, stream) = self.channel(Purpose::Activation, "receive activations")?;
        let buffer = self.buffer()?;
        group.recv(self.context, Subject::Pipeline, &stream, &buffer, from)?;
        self.activations.insert((micro_batch, chunk), buffer);
        Ok(stream)
    }

    /// Queues the receipt of the gradient of a chunk's output.
    pub(super) fn recv_gradient(
        &mut self,
        micro_batch: usize,
        chunk: usize,
        from: usize,
    ) -> Result<Stream> {
        let (group, stream) = self.channel(Purpose::Gradient, "receive gradients")?;
        let buffer = self.buffer()?;
        group.recv(self.context, Subject::Pipeline, &stream, &buffer, from)?;
        self.gradients.insert((micro_batch, chunk), buffer);
        Ok(stream)
    }

    /// The micro-batches' losses, on the stage that has them, in the order in which they came.
    pub(super) fn into_losses(self) -> Vec<(usize, Tensor)> {
        self.losses
    }

    /// Leaves an input for a chunk of this same stage.
    pub(super) fn hand_over(&mut self, micro_batch: usize, chunk: usize, activation: Tensor) {
        self.activations.insert((micro_batch, chunk), activation);
    }

    pub(super) fn input(&mut self, task: Task) -> Result<(Option<DTensor>, Option<Gradient>)> {
        let tensor = self
            .activations
            .remove(&task)
            .ok_or_else(|| out_of_order("forward", task))?;
        let Activation { features, cut, .. } = self.model.activation();
        let (var, gradient) = Var::tracked(tensor);
        Ok((
            Some(DTensor::new(self.context, var, features, cut)?),
            Some(gradient),
        ))
    }

    // With one stage, its chunks hand over to each other without a message.
    fn hands_over(&self) -> bool {
        self.context.degree(Axis::Pipeline) == 1 && self.num_chunks > 1
    }

    fn buffer(&self) -> Result<Tensor> {
        let Activation { shape, dtype, .. } = self.model.activation();
        self.context.buffer(dtype, &shape)
    }

    pub(super) fn channel(
        &self,
        purpose: Purpose,
        stream: &'static str,
    ) -> Result<(Rc<Group>, Stream)> {
        let group = self.context.group(Axis::Pipeline, purpose)?;
        Ok((
            group.expect("messages only pass between several stages"),
            self.context.stream(stream)?,
        ))
    }
}

fn out_of_order(what: &str, (micro_batch, chunk): Task) -> Error {
    Error::invalid(
        what,
        format!("micro-batch {micro_batch} of chunk {chunk} out of order"),
        "a schedule that checks",
    )
}
