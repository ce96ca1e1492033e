//! The work of a stage on a batch: passes of micro-batches through its parts, and the messages between stages.

use super::{
    channel::{Signature, WireSpec, signature},
    part::{Live, Program},
    pipeline::Pipeline,
    round::Rounds,
    saver::PartSaver,
    schedule::ChunkLocation,
};
use crate::{
    DTensor, Pass,
    data::Gradients,
    layers::loss::LossValue,
    model::{Batch, Link, MicroBatch},
    pass::Later,
};
use grid::Axis;
use std::{collections::HashMap, ops::Range, rc::Rc};
use tensor::{
    Error, Event, Result, Tensor, Var,
    autograd::{self, Gradient},
    ops,
};

/// Micro-batch and chunk.
type Task = (usize, usize);

/// Micro-batch and link.
type Message = (usize, usize);

/// By link, for each wire that enters a part, the place where its gradient will arrive, if it wants one.
type Inputs = Vec<(usize, Vec<Option<(Gradient, WireSpec)>>)>;

/// State of a part's forward that is kept until its backward.
#[derive(Default)]
struct InFlight {
    inputs: Inputs,
    // By link, the wires that leave.
    outputs: Vec<(usize, Vec<DTensor>)>,
    loss: Option<Var>,
}

/// One stage during a batch.
pub(super) struct Stage<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) run: BatchRun,
}

/// The state of a stage's work on a batch, which may rest from one step to the next.
pub(super) struct BatchRun {
    // The passes of the micro-batches, and the versions of the model that run them.
    rounds: Rounds,
    batch: Rc<Batch>,
    signatures: Vec<Signature>,
    d_loss: Option<Tensor>,
    in_flight: HashMap<Task, InFlight>,
    activations: HashMap<Message, Vec<(Tensor, WireSpec)>>,
    gradients: HashMap<Message, Vec<Option<Tensor>>>,
    // Gradients of weights that backwards have put off.
    put_off: HashMap<Task, Later>,
    losses: Vec<(usize, LossValue)>,
}

impl BatchRun {
    /// The batch's number of rows and of the step, which it was announced with.
    pub(super) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The losses of the micro-batches, on the stage that has them, in the order of completion.
    pub(super) fn into_losses(self) -> Vec<(usize, LossValue)> {
        self.losses
    }
}

impl<'a> Stage<'a> {
    /// If there is `d_loss`, the gradient of the loss, the batch is used for training.
    pub(super) fn new(
        pipeline: &'a Pipeline,
        batch: &Batch,
        rounds: Rounds,
        d_loss: Option<&Tensor>,
    ) -> Stage<'a> {
        let signatures = batch.micro_batches.iter();
        let run = BatchRun {
            rounds,
            signatures: signatures
                .map(|batch| signature(batch, d_loss.is_some()))
                .collect(),
            batch: Rc::new(batch.clone()),
            d_loss: d_loss.cloned(),
            in_flight: HashMap::new(),
            activations: HashMap::new(),
            gradients: HashMap::new(),
            put_off: HashMap::new(),
            losses: Vec::new(),
        };
        Stage { pipeline, run }
    }

    /// Runs a part forward on the wires that were received, or handed over, for it.
    pub(super) fn forward(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let part = self.part(chunk);
        let (program, pass, data) = self.run_of(micro_batch)?;
        let (mut live, inputs) = self.inputs(&pass, micro_batch, chunk)?;
        let mut saver = PartSaver::new(self.pipeline.saver.as_ref(), &live);
        program.forward(part, &pass, &data, &mut live, &mut saver)?;
        let mut flight = InFlight {
            inputs,
            ..InFlight::default()
        };
        if program.cut.is_last(part) {
            // The objective keeps what it needs where the last segment does.
            let place = program.place(program.cut.num_segments() - 1);
            let objective = |live: &mut _| program.objective(&pass, &data, live);
            let loss = saver.segment(place, &mut live, objective)?;
            self.run.losses.push((micro_batch, loss.to_value()));
            flight.loss = Some(loss.into_var());
        }
        flight.outputs = self.leave(micro_batch, part, &live)?;
        self.run.in_flight.insert((micro_batch, chunk), flight);
        Ok(())
    }

    /// Runs a part forward, and at the end passes the wires of the model's objective to `finish`.
    pub(super) fn evaluate<T>(
        &mut self,
        micro_batch: usize,
        chunk: usize,
        finish: impl FnOnce(&Pass, &MicroBatch, crate::model::Wires) -> Result<T>,
    ) -> Result<Option<T>> {
        let part = self.part(chunk);
        let (program, pass, data) = self.run_of(micro_batch)?;
        self.recv_activations(micro_batch, chunk)?;
        let (mut live, _) = self.inputs(&pass, micro_batch, chunk)?;
        let mut saver = PartSaver::new(None, &live);
        program.forward(part, &pass, &data, &mut live, &mut saver)?;
        if program.cut.is_last(part) {
            let wires = program.outputs(&mut live)?;
            return finish(&pass, &data, wires).map(Some);
        }
        let outputs = self.leave(micro_batch, part, &live)?;
        drop(live);
        self.send_wires(micro_batch, &outputs)?;
        Ok(None)
    }

    /// As [`backward`](Stage::backward), but for the gradients of weights, which are put off.
    pub(super) fn backward_of_inputs(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let (_, pass, _) = self.run_of(micro_batch)?;
        let later = pass.putting_off(|| self.backward(micro_batch, chunk))?;
        self.run.put_off.insert((micro_batch, chunk), later);
        Ok(())
    }

    /// Computes the gradients of weights that a backward has put off.
    pub(super) fn weight_gradients(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let task = (micro_batch, chunk);
        let later = self.run.put_off.remove(&task);
        let later = later.ok_or_else(|| out_of_order("gradients of weights", task))?;
        later.into_iter().try_for_each(|work| work())
    }

    /// Runs a part backward from the gradients that were received, or handed over, or from the loss.
    pub(super) fn backward(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let task = (micro_batch, chunk);
        let flight = self
            .run
            .in_flight
            .remove(&task)
            .ok_or_else(|| out_of_order("backward", task))?;
        let mut roots: Vec<(usize, Var, Tensor)> = Vec::new();
        for (link, wires) in flight.outputs {
            let gradients = self.run.gradients.remove(&(micro_batch, link));
            let gradients = gradients.ok_or_else(|| out_of_order("backward", task))?;
            let numbers = &self.link(link).wires;
            for ((wire, number), gradient) in wires.into_iter().zip(numbers).zip(gradients) {
                let Some(gradient) = gradient else { continue };
                match roots.iter().position(|(other, ..)| other == number) {
                    // Several later parts use the wire; their gradients are added in the order of the parts.
                    Some(index) => roots[index].2 = ops::add(&roots[index].2, &gradient)?,
                    None => roots.push((*number, wire.into_held(), gradient)),
                }
            }
        }
        let mut roots: Vec<(Var, Tensor)> = roots.into_iter().map(|(_, var, d)| (var, d)).collect();
        if let (Some(loss), Some(d_loss)) = (flight.loss, &self.run.d_loss) {
            roots.push((loss, d_loss.clone()));
        }
        autograd::backward(roots)?;
        for (link, gradients) in flight.inputs {
            // For the message to the previous part, or for that part itself if it is on this stage.
            let taken = gradients.into_iter().map(|wanted| {
                wanted
                    .map(|(gradient, spec)| self.taken(micro_batch, gradient, &spec))
                    .transpose()
            });
            let taken = taken.collect::<Result<_>>()?;
            self.run.gradients.insert((micro_batch, link), taken);
        }
        self.run.rounds.note_backward();
        Ok(())
    }

    /// The gradients of the next update, if it is not the last one of the step and its backwards have run. Collective.
    pub(super) fn due_gradients(&mut self) -> Result<Option<Gradients>> {
        match self.run.rounds.is_due(self.num_micro_batches()) {
            true => self.run.rounds.finish(self.pipeline).map(Some),
            false => Ok(None),
        }
    }

    /// The gradients of the last update of the step. Collective.
    pub(super) fn last_gradients(&mut self) -> Result<Gradients> {
        self.run.rounds.finish(self.pipeline)
    }

    // What runs a micro-batch: a version of the model, a pass, and the rows as the pass counts them.
    fn run_of(&mut self, micro_batch: usize) -> Result<(Program, Pass, MicroBatch)> {
        let BatchRun { rounds, batch, .. } = &mut self.run;
        rounds.run_of(self.pipeline, batch, micro_batch)
    }

    // A wire that no segment used has a gradient of zero.
    fn taken(&self, micro_batch: usize, gradient: Gradient, spec: &WireSpec) -> Result<Tensor> {
        if let Some(gradient) = gradient.take() {
            return Ok(gradient);
        }
        let zeros = spec.buffer(self.pipeline.context(), self.rows(micro_batch))?;
        zeros.fill(0.0)?;
        Ok(zeros)
    }

    /// Queues the messages with the wires that a part has made for others.
    pub(super) fn send_activations(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        let task = (micro_batch, chunk);
        let flight = self.run.in_flight.get(&task);
        let flight = flight.ok_or_else(|| out_of_order("send of an activation", task))?;
        self.send_wires(micro_batch, &flight.outputs)
    }

    fn send_wires(&self, micro_batch: usize, outputs: &[(usize, Vec<DTensor>)]) -> Result<()> {
        let rows = self.rows(micro_batch);
        for (link, wires) in outputs {
            let Some(channel) = &self.pipeline.channels[*link] else {
                continue;
            };
            let cut = self.pipeline.cut();
            let names = self
                .link(*link)
                .wires
                .iter()
                .map(|number| &*cut.wire(*number).name);
            let named: Vec<(&str, &DTensor)> = names.zip(wires).collect();
            channel.send(
                self.pipeline.context(),
                &self.run.signatures[micro_batch],
                &named,
                rows,
            )?;
        }
        Ok(())
    }

    /// Queues the messages with the gradients of the wires that entered a part.
    pub(super) fn send_gradients(&mut self, micro_batch: usize, chunk: usize) -> Result<()> {
        for link in self.links_into(self.part(chunk)) {
            let Some(channel) = &self.pipeline.channels[link] else {
                continue;
            };
            let gradients = self.run.gradients.remove(&(micro_batch, link));
            let gradients = gradients
                .ok_or_else(|| out_of_order("send of a gradient", (micro_batch, chunk)))?;
            channel.send_gradients(self.pipeline.context(), &gradients)?;
        }
        Ok(())
    }

    /// Queues the receives of the wires that enter a part from other stages, unless this was done before; the
    /// events have passed once the wires have arrived.
    pub(super) fn recv_activations(
        &mut self,
        micro_batch: usize,
        chunk: usize,
    ) -> Result<Vec<Event>> {
        let links = self.links_into(self.part(chunk)).into_iter();
        let received = links.map(|link| self.recv_wires(micro_batch, link));
        Ok(received
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Queues the receives of the gradients of the wires that a part has made for other stages, unless this was done before.
    pub(super) fn recv_gradients(
        &mut self,
        micro_batch: usize,
        chunk: usize,
    ) -> Result<Vec<Event>> {
        let links = self.links_out_of(self.part(chunk)).into_iter();
        let received = links.map(|link| self.recv_wire_gradients(micro_batch, link));
        Ok(received
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    // None if the link stays on this stage, or was received before.
    fn recv_wires(&mut self, micro_batch: usize, link: usize) -> Result<Option<Event>> {
        let pipeline = self.pipeline;
        let channel = pipeline.channels[link].as_ref();
        let is_due = !self.run.activations.contains_key(&(micro_batch, link));
        let Some(channel) = channel.filter(|_| is_due) else {
            return Ok(None);
        };
        let signature = &self.run.signatures[micro_batch];
        let (received, event) =
            channel.recv(pipeline.context(), signature, self.rows(micro_batch))?;
        self.run.activations.insert((micro_batch, link), received);
        Ok(Some(event))
    }

    fn recv_wire_gradients(&mut self, micro_batch: usize, link: usize) -> Result<Option<Event>> {
        let pipeline = self.pipeline;
        let channel = pipeline.channels[link].as_ref();
        let is_due = !self.run.gradients.contains_key(&(micro_batch, link));
        let Some(channel) = channel.filter(|_| is_due) else {
            return Ok(None);
        };
        let signature = &self.run.signatures[micro_batch];
        let (received, event) =
            channel.recv_gradients(pipeline.context(), signature, self.rows(micro_batch))?;
        self.run.gradients.insert((micro_batch, link), received);
        Ok(Some(event))
    }

    /// Queues the receives of what other stages have sent and this one has not received: the wires of the micro-batches
    /// `sent(stage)`, and the gradients of `returned(stage)`, by the stage that sends them. A stage has one part.
    pub(super) fn receive_sent(
        &mut self,
        sent: impl Fn(usize) -> Range<usize>,
        returned: impl Fn(usize) -> Range<usize>,
    ) -> Result<()> {
        let (pipeline, part) = (self.pipeline, self.part(0));
        for link in self.links_into(part) {
            for micro_batch in sent(pipeline.cut().stage(self.link(link).from)) {
                self.recv_wires(micro_batch, link)?;
            }
        }
        for link in self.links_out_of(part) {
            for micro_batch in returned(pipeline.cut().stage(self.link(link).to)) {
                self.recv_wire_gradients(micro_batch, link)?;
            }
        }
        Ok(())
    }

    /// Whether the shapes of all wires that enter a part are known, so that they can be received ahead.
    pub(super) fn knows_inputs(&self, micro_batch: usize, chunk: usize) -> bool {
        self.knows(micro_batch, &self.links_into(self.part(chunk)))
    }

    /// Whether the shapes of all wires that leave a part are known, so that their gradients can be received
    /// ahead.
    pub(super) fn knows_outputs(&self, micro_batch: usize, chunk: usize) -> bool {
        self.knows(micro_batch, &self.links_out_of(self.part(chunk)))
    }

    fn knows(&self, micro_batch: usize, links: &[usize]) -> bool {
        let signature = &self.run.signatures[micro_batch];
        let mut channels = links
            .iter()
            .filter_map(|link| self.pipeline.channels[*link].as_ref());
        channels.all(|channel| channel.knows(signature))
    }

    pub(super) fn num_micro_batches(&self) -> usize {
        self.run.batch.micro_batches.len()
    }

    // The wires that enter a part, and the places where their gradients will arrive.
    fn inputs(&mut self, pass: &Pass, micro_batch: usize, chunk: usize) -> Result<(Live, Inputs)> {
        let (mut live, mut all) = (Live::default(), Vec::new());
        for link in self.links_into(self.part(chunk)) {
            let received = self.run.activations.remove(&(micro_batch, link));
            let received = received.ok_or_else(|| out_of_order("forward", (micro_batch, chunk)))?;
            let mut gradients = Vec::with_capacity(received.len());
            for ((tensor, spec), number) in received.into_iter().zip(&self.link(link).wires) {
                if !(spec.wants_gradient && self.run.d_loss.is_some()) {
                    live.put(*number, spec.wire(pass, Var::constant(tensor))?);
                    gradients.push(None);
                    continue;
                }
                let (var, gradient) = Var::tracked(tensor);
                live.put(*number, spec.wire(pass, var)?);
                gradients.push(Some((gradient, spec)));
            }
            all.push((link, gradients));
        }
        Ok((live, all))
    }

    // The wires that a part has made for others; those that stay on this stage are handed over at once.
    fn leave(
        &mut self,
        micro_batch: usize,
        part: usize,
        live: &Live,
    ) -> Result<Vec<(usize, Vec<DTensor>)>> {
        let rows = self.rows(micro_batch);
        let mut outputs = Vec::new();
        for link in self.links_out_of(part) {
            let wires = self
                .link(link)
                .wires
                .iter()
                .map(|number| live.get(*number).cloned());
            let wires = wires.collect::<Result<Vec<_>>>()?;
            if self.pipeline.channels[link].is_none() {
                let cut = self.pipeline.cut();
                let handed = |(wire, number): (&DTensor, &usize)| {
                    let spec = WireSpec::of(&cut.wire(*number).name, wire, rows)?;
                    Ok((wire.held().clone(), spec))
                };
                let handed = wires.iter().zip(&self.link(link).wires).map(handed);
                self.run
                    .activations
                    .insert((micro_batch, link), handed.collect::<Result<_>>()?);
            }
            outputs.push((link, wires));
        }
        Ok(outputs)
    }

    /// Whether the part before a chunk's is on this stage too.
    pub(super) fn has_part_before(&self, chunk: usize) -> bool {
        let part = self.part(chunk);
        part > 0 && self.pipeline.cut().stage(part - 1) == self.pipeline.cut().stage(part)
    }

    /// Whether the part behind a chunk's is on this stage too.
    pub(super) fn has_part_behind(&self, chunk: usize) -> bool {
        let (part, cut) = (self.part(chunk), self.pipeline.cut());
        !cut.is_last(part) && cut.stage(part + 1) == cut.stage(part)
    }

    // Rows of a micro-batch on this rank.
    fn rows(&self, micro_batch: usize) -> usize {
        self.run.batch.micro_batches[micro_batch].rows().len()
    }

    fn part(&self, chunk: usize) -> usize {
        let stage = self.pipeline.context().index(Axis::Pipeline);
        let stages = self.pipeline.cut().stages();
        stages.part(ChunkLocation { stage, chunk })
    }

    fn link(&self, link: usize) -> &'a Link {
        &self.pipeline.cut().links()[link]
    }

    fn links_into(&self, part: usize) -> Vec<usize> {
        let links = self.pipeline.cut().links().iter().enumerate();
        links
            .filter(|(_, link)| link.to == part)
            .map(|(index, _)| index)
            .collect()
    }

    fn links_out_of(&self, part: usize) -> Vec<usize> {
        let links = self.pipeline.cut().links().iter().enumerate();
        links
            .filter(|(_, link)| link.from == part)
            .map(|(index, _)| index)
            .collect()
    }
}

fn out_of_order(what: &str, (micro_batch, chunk): Task) -> Error {
    let found = format!("micro-batch {micro_batch} of chunk {chunk} out of order");
    Error::invalid(what, found, "a schedule that checks")
}
