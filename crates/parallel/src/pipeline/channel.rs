//! The connection between two parts on different stages: a communicator for each direction, and the wires that
//! use it.
//!
//! Consecutive parts on neighbouring stages share the communicator of their stages, because the checker of
//! schedules has compared both ends. A link that skips parts has its own communicator, on which only micro-batches count, and
//! arrive in order. Which messages share a stream depends on the queues of the device ([`Sharing`]).

use super::{
    schedule::Sharing,
    streams::{Direction, Streams},
};
use crate::{
    Context, DTensor, Group, MicroBatch, Purpose,
    counters::Subject,
    layers::spread::{Share, Spread},
    model::{Cut, Link},
};
use grid::Axis;
use hal::Exchange;
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};
use tensor::{DType, Error, Event, Result, Tensor};

/// This rank's end of a link.
pub(super) struct Channel {
    forward: Rc<Group>,
    // Present if the model is trained.
    backward: Option<Rc<Group>>,
    exchange: Arc<dyn Exchange>,
    streams: Streams,
    learnt: RefCell<HashMap<Signature, Vec<WireSpec>>>,
}

/// Everything besides the number of rows that determines the shapes of wires: the shapes of the batch's
/// columns, and whether the pass trains.
pub(super) type Signature = (bool, Vec<Vec<usize>>);

/// A wire as the receiver must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireSpec {
    dtype: DType,
    // Without the first dim, which counts rows.
    shape: Vec<usize>,
    features: usize,
    cut: Option<Axis>,
    // Along which axes ranks hold parts of its vectors.
    share: Share,
    /// Whether a gradient is sent back.
    pub(super) wants_gradient: bool,
}

const DTYPES: [DType; 7] = [
    DType::F64,
    DType::F32,
    DType::Bf16,
    DType::F16,
    DType::I32,
    DType::U32,
    DType::U8,
];

/// The signature of a micro-batch.
pub(super) fn signature(batch: &MicroBatch, trains: bool) -> Signature {
    let shapes = batch
        .columns()
        .map(|(_, column)| column.shape()[1..].to_vec());
    (trains, shapes.collect())
}

impl Channel {
    /// Opens this rank's ends of all links, in the same order on every rank, because joining a group waits for
    /// its other member.
    pub(super) fn open_all(
        context: &Context,
        cut: &Cut,
        (trains, sharing): (bool, Sharing),
    ) -> Result<Vec<Option<Channel>>> {
        let open = |link: &Link| Channel::open(context, cut, link, (trains, sharing));
        cut.links().iter().map(open).collect()
    }

    fn open(
        context: &Context,
        cut: &Cut,
        link: &Link,
        (trains, sharing): (bool, Sharing),
    ) -> Result<Option<Channel>> {
        let stages = [cut.stage(link.from), cut.stage(link.to)];
        let own = context.index(Axis::Pipeline);
        if stages[0] == stages[1] || !stages.contains(&own) {
            return Ok(None);
        }
        let line = context.members(&[Axis::Pipeline]);
        let members = stages.map(|stage| line[stage]);
        let skips = link.skips();
        let label = match skips {
            false => format!("axis pipeline, stages {} to {}", stages[0], stages[1]),
            true => format!("axis pipeline, parts {} to {}", link.from, link.to),
        };
        let group = |purpose| {
            let group = context.group_of(label.clone(), Axis::Pipeline, &members, purpose)?;
            // Or a stage that receives ahead would hold its host until its neighbour sends, and never get to its own work.
            group.connect()?;
            Ok::<_, Error>(group)
        };
        Ok(Some(Channel {
            forward: group(Purpose::Activation)?,
            backward: trains.then(|| group(Purpose::Gradient)).transpose()?,
            exchange: context.world().exchange(
                &format!("wires of parts {} to {}", link.from, link.to),
                &members,
            )?,
            streams: Streams::of(link, cut.stages(), sharing),
            learnt: RefCell::default(),
        }))
    }

    /// Whether the shapes of the wires are known.
    pub(super) fn knows(&self, signature: &Signature) -> bool {
        self.learnt.borrow().contains_key(signature)
    }

    /// Queues the messages with the wires of a link; the first time, their shapes are sent before them, between
    /// the hosts.
    pub(super) fn send(
        &self,
        context: &Context,
        signature: &Signature,
        wires: &[(&str, &DTensor)],
        rows: usize,
    ) -> Result<()> {
        let specs = wires
            .iter()
            .map(|(name, wire)| WireSpec::of(name, wire, rows));
        let mut specs = specs.collect::<Result<Vec<_>>>()?;
        let known = self.learnt.borrow().get(signature).cloned();
        // A micro-batch may have too few vectors to spread.
        for (spec, known) in specs.iter_mut().zip(known.iter().flatten()) {
            let held = known.spread_of(context, rows);
            let held = held.map_or(Share::NONE, |spread| spread.share());
            spec.share.runs |= known.share.runs && !held.runs;
            spec.share.tokens |= known.share.tokens && !held.tokens;
        }
        match known {
            Some(known) => agree(wires, &known, &specs)?,
            None => {
                self.exchange.broadcast(0, &WireSpec::encode(&specs))?;
                self.learnt.borrow_mut().insert(signature.clone(), specs);
            }
        }
        let stream = self.streams.get(context, Direction::SendActivations)?;
        wires.iter().try_for_each(|(_, wire)| {
            self.forward
                .send(context, Subject::Pipeline, &stream, wire.held(), 1)
        })
    }

    /// Queues the receives of the wires of a link for `rows` rows. Work that reads them waits automatically;
    /// the event has passed once they have arrived.
    pub(super) fn recv(
        &self,
        context: &Context,
        signature: &Signature,
        rows: usize,
    ) -> Result<(Vec<(Tensor, WireSpec)>, Event)> {
        let specs = self.specs(signature)?;
        let stream = self.streams.get(context, Direction::RecvActivations)?;
        let receive = |spec: WireSpec| {
            let tensor = spec.buffer(context, rows)?;
            self.forward
                .recv(context, Subject::Pipeline, &stream, &tensor, 0)?;
            Ok((tensor, spec))
        };
        let received = specs.into_iter().map(receive).collect::<Result<_>>()?;
        Ok((received, stream.record()?))
    }

    /// Queues the messages with the gradients of a link's wires, for those that want one.
    pub(super) fn send_gradients(
        &self,
        context: &Context,
        gradients: &[Option<Tensor>],
    ) -> Result<()> {
        let stream = self.streams.get(context, Direction::SendGradients)?;
        let backward = self.backward()?;
        gradients.iter().flatten().try_for_each(|gradient| {
            backward.send(context, Subject::Pipeline, &stream, gradient, 0)
        })
    }

    /// Queues the receives of the gradients of a link's wires, for those that want one.
    pub(super) fn recv_gradients(
        &self,
        context: &Context,
        signature: &Signature,
        rows: usize,
    ) -> Result<(Vec<Option<Tensor>>, Event)> {
        let stream = self.streams.get(context, Direction::RecvGradients)?;
        let backward = self.backward()?;
        let receive = |spec: WireSpec| {
            if !spec.wants_gradient {
                return Ok(None);
            }
            let tensor = spec.buffer(context, rows)?;
            backward.recv(context, Subject::Pipeline, &stream, &tensor, 1)?;
            Ok(Some(tensor))
        };
        let received = self.specs(signature)?.into_iter().map(receive);
        let received = received.collect::<Result<_>>()?;
        Ok((received, stream.record()?))
    }

    fn specs(&self, signature: &Signature) -> Result<Vec<WireSpec>> {
        if let Some(known) = self.learnt.borrow().get(signature) {
            return Ok(known.clone());
        }
        let specs = WireSpec::decode(&self.exchange.broadcast(0, &[])?)?;
        let mut learnt = self.learnt.borrow_mut();
        Ok(learnt.entry(signature.clone()).or_insert(specs).clone())
    }

    fn backward(&self) -> Result<&Rc<Group>> {
        let refuse = || {
            Error::invalid(
                "pipeline",
                "a backward of a set made for inference",
                "a set that trains",
            )
        };
        self.backward.as_ref().ok_or_else(refuse)
    }
}

fn agree(wires: &[(&str, &DTensor)], known: &[WireSpec], found: &[WireSpec]) -> Result<()> {
    let differs = found
        .iter()
        .zip(known)
        .position(|(found, known)| found != known);
    match differs {
        None => Ok(()),
        Some(index) => Err(Error::invalid(
            format!("wire {}", wires[index].0),
            found[index].text(),
            format!("{}, as in the first micro-batch", known[index].text()),
        )),
    }
}

impl WireSpec {
    /// The specification of a wire that is about to be sent.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its first dim is not the number of rows.
    pub(super) fn of(name: &str, wire: &DTensor, rows: usize) -> Result<WireSpec> {
        let shape = [wire.leading(), &[wire.held().columns()]].concat();
        match shape.split_first() {
            Some((first, rest)) if *first == rows => Ok(WireSpec {
                dtype: wire.dtype(),
                shape: rest.to_vec(),
                features: wire.features(),
                cut: wire.cut(),
                share: wire.share(),
                wants_gradient: wire.held_var().wants_gradient(),
            }),
            _ => {
                let needed = format!("a first dim of {rows}, the micro-batch's rows on this rank");
                Err(Error::invalid(
                    format!("wire {name}"),
                    wire.described(),
                    needed,
                ))
            }
        }
    }

    /// Memory for what a rank holds of the wire, or of its gradient, with this many rows.
    pub(super) fn buffer(&self, context: &Context, rows: usize) -> Result<Tensor> {
        let whole = [&[rows], &self.shape[..]].concat();
        let shape = match (self.spread_of(context, rows), whole.last()) {
            (Some(spread), Some(columns)) => vec![spread.own(context).len(), *columns],
            _ => whole,
        };
        context.buffer(self.dtype, &shape)
    }

    /// The received tensor, restored to what it was when it was sent.
    pub(super) fn wire(&self, pass: &crate::Pass, var: tensor::Var) -> Result<DTensor> {
        let spread = self.spread_of(pass.context(), pass.rows().len());
        DTensor::spread_over(pass, var, (self.features, self.cut), spread)
    }

    fn spread_of(&self, context: &Context, rows: usize) -> Option<Spread> {
        let inner = self.shape.split_last().map_or(&[][..], |(_, inner)| inner);
        Spread::of(context, &[&[rows], inner].concat(), self.share)
    }

    fn text(&self) -> String {
        let cut = self
            .cut
            .map_or("whole".into(), |axis| format!("cut by {axis}"));
        format!(
            "{} {:?} a row, {} features {cut}{}",
            self.dtype,
            self.shape,
            self.features,
            self.share
                .axes()
                .map(|axis| format!(", vectors spread over {axis}"))
                .collect::<String>()
        )
    }

    // Numbers of 8 bytes: for each wire type, features, cut, share, gradient, dims and the dims themselves.
    fn encode(specs: &[WireSpec]) -> Vec<u8> {
        let one = |spec: &WireSpec| {
            let dtype = DTYPES
                .iter()
                .position(|dtype| *dtype == spec.dtype)
                .unwrap_or(0);
            let cut = spec.cut.map_or(0, |axis| 1 + axis as usize);
            let head = [
                dtype,
                spec.features,
                cut,
                usize::from(spec.share.tokens) + 2 * usize::from(spec.share.runs),
                usize::from(spec.wants_gradient),
                spec.shape.len(),
            ];
            head.into_iter()
                .chain(spec.shape.clone())
                .collect::<Vec<_>>()
        };
        let numbers = specs.iter().flat_map(one);
        numbers
            .flat_map(|number| (number as u64).to_le_bytes())
            .collect()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<WireSpec>> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<usize> = chunks
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes) as usize)
            .collect();
        let malformed = || {
            let found = format!("a description of {} bytes", bytes.len());
            Error::invalid("wires", found, "whole numbers of 8 bytes")
        };
        let mut left = &numbers[..];
        let mut specs = Vec::new();
        while !left.is_empty() {
            let (spec, after) = WireSpec::first_of(left).ok_or_else(malformed)?;
            specs.push(spec);
            left = after;
        }
        if rest.is_empty() {
            Ok(specs)
        } else {
            Err(malformed())
        }
    }

    fn first_of(numbers: &[usize]) -> Option<(WireSpec, &[usize])> {
        let (&[dtype, features, cut, share, wants_gradient, dims], rest) =
            numbers.split_first_chunk()?;
        let (shape, rest) = rest.split_at_checked(dims)?;
        let spec = WireSpec {
            dtype: *DTYPES.get(dtype)?,
            shape: shape.to_vec(),
            features,
            cut: match cut {
                0 => None,
                axis => Some(*Axis::ALL.get(axis - 1)?),
            },
            share: Share {
                tokens: share & 1 == 1,
                runs: share & 2 == 2,
            },
            wants_gradient: wants_gradient == 1,
        };
        Some((spec, rest))
    }
}
