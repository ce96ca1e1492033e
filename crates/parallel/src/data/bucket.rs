//! A flat buffer of parameters that are reduced, updated and gathered together.

use super::{
    Part,
    blocks::Scales,
    flat::Flat,
    room::Room,
    state::{BucketState, StateTensors},
};
use crate::{Context, Parameter, Purpose, counters::Subject, parameter::Home};
use grid::{Axis, shard_range};
use hal::Counts;
use std::{
    cell::{Cell, OnceCell},
    ops::Range,
    rc::Rc,
};
use tensor::{DType, Error, MemoryKind, ReduceOp, Result, Stream, Tensor, ops};

// Parameters start at multiples of this many elements, so that vector loads of each are aligned.
const ALIGNMENT: usize = 16;

/// Where a further version of parameters has its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionGradients {
    /// In memory of its own: backward passes on one version may begin before the update of the other.
    Own,
    /// In that of the first version: they begin after it.
    Shared,
}

/// Parameters whose gradients are summed over the same axes, contiguous in memory.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) parameters: Vec<Parameter>,
    /// The position of each parameter in the flat buffers: of its bytes, if it is stored as codes.
    pub(super) places: Vec<Range<usize>>,
    /// Segments of this stage that use each parameter, where replicas shard gradients.
    pub(super) uses: usize,
    /// World ranks of other pipeline stages that hold the same parameter, including this rank.
    pub(super) tied: Option<Vec<usize>>,
    pub(super) sum_axes: Vec<Axis>,
    pub(super) values: Flat,
    /// Gradients of all weights, or of those in `range` if replicas shard them.
    pub(super) gradients: Option<Flat>,
    /// Of `range`; with weights in the accumulator type, if the values have another one.
    pub(super) state: BucketState,
    /// If the state is kept as codes.
    pub(super) scales: Option<Scales>,
    /// Whether its values are the bytes of codes.
    pub(super) is_quantised: bool,
    /// Whether its parameters are matrices that the optimiser updates as a whole.
    pub(super) is_whole: bool,
    /// The range that this rank updates: all, or its shard over Data.
    pub(super) range: Range<usize>,
    shards_gradients: bool,
    counts: Counts,
    /// When it was reduced in this step, counted in buckets.
    pub(super) turn: Cell<usize>,
    /// The values of the same bucket in the set's other versions: of the one updated before it, of the one before that.
    pub(super) previous: OnceCell<Vec<Flat>>,
}

impl Bucket {
    pub(super) fn allocate(
        context: &Context,
        numbered: Vec<(Parameter, usize)>,
        (tied, uses): (Option<Vec<usize>>, usize),
        (options, room): (&super::SetOptions, &Room),
        other: Option<(&Bucket, VersionGradients)>,
        (set, bucket): (&Rc<()>, usize),
    ) -> Result<Bucket> {
        let parameters: Vec<Parameter> = numbered
            .iter()
            .map(|(parameter, _)| parameter.clone())
            .collect();
        let places = places(&parameters);
        let shards = if options.sharding.shards_state() {
            context.degree(Axis::Data)
        } else {
            1
        };
        // Shards of equal length, because vendors have fast collectives only for those.
        let len = places
            .last()
            .map_or(0, |place| place.end)
            .next_multiple_of(ALIGNMENT * shards);
        let device = context.device();
        let accumulator = options.dtype.accumulator();
        let is_quantised = parameters.iter().any(|one| one.quantised().is_some());
        let of_values = match is_quantised {
            true => (DType::U8, len),
            false => (options.dtype, len),
        };
        let values = Flat::zeros(
            device,
            MemoryKind::Weights,
            of_values,
            room.weights.as_ref(),
        )?;
        let range = shard_range(
            len,
            shards,
            if shards == 1 {
                0
            } else {
                context.index(Axis::Data)
            },
        );
        // Frozen parameters have their own class and therefore their own buckets.
        let trains = options.trains && !parameters.iter().any(Parameter::is_frozen);
        let shards_gradients = options.sharding.shards_gradients() && shards > 1 && trains;
        let first = parameters.first().filter(|_| trains);
        let num_states = first.map_or(0, |first| options.states_of(first));
        let is_whole = first.is_some_and(|first| options.is_whole(first));
        let gradients = match other {
            Some((other, VersionGradients::Shared)) => other.gradients.clone(),
            _ if !trains => None,
            _ => {
                let len = if shards_gradients { range.len() } else { len };
                let (kind, pages) = (MemoryKind::Gradients, room.gradients.as_ref());
                Some(Flat::zeros(device, kind, (accumulator, len), pages)?)
            }
        };
        let coded = first.filter(|first| options.is_coded(first));
        let of_state = first.map_or(accumulator, |first| options.dtype_of(Part::State(0), first));
        let tensors = StateTensors {
            len: range.len(),
            num_states,
            dtypes: [of_state, accumulator],
            has_master: (options.dtype != accumulator || room.host.is_some()) && trains,
        };
        let (state, scales) = match other {
            Some((other, _)) => (other.state.clone(), other.scales.clone()),
            None => {
                let of_states = (num_states, accumulator);
                let scales = coded.map(|_| Scales::allocate(context, &parameters, of_states));
                let state = BucketState::allocate(device, room, &tensors, ALIGNMENT)?;
                (state, scales.transpose()?)
            }
        };
        let whole_gradients = gradients.as_ref().filter(|_| !shards_gradients);
        for (at, ((parameter, index), place)) in numbered.iter().zip(&places).enumerate() {
            let view = |flat: &Flat| flat.part(place, &parameter.stored_shape());
            parameter.settle(Home {
                set: set.clone(),
                index: *index,
                bucket,
                place: at,
                dtype: options.dtype,
                stored: view(&values)?,
                gradient: whole_gradients.map(view).transpose()?,
                shards_gradient: shards_gradients,
            })?;
        }
        let sum_axes = |first: &Parameter| first.sum_axes(context);
        let sum_axes = parameters.first().map_or(Vec::new(), sum_axes);
        let counts = Counts::Even(len / shards);
        Ok(Bucket {
            parameters,
            places,
            uses,
            tied,
            sum_axes,
            values,
            gradients,
            state,
            scales,
            is_quantised,
            is_whole,
            range,
            shards_gradients,
            counts,
            turn: Cell::new(bucket),
            previous: OnceCell::new(),
        })
    }

    /// Whether no step updates its parameters: they have a class, and therefore buckets, of their own.
    pub(super) fn is_frozen(&self) -> bool {
        self.parameters.iter().any(Parameter::is_frozen)
    }

    /// The values of the version that was updated `updates` before this one, from 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub(super) fn previous(&self, updates: usize) -> Result<&Tensor> {
        let others = self.previous.get().map_or(&[][..], Vec::as_slice);
        let found = updates.checked_sub(1).and_then(|index| others.get(index));
        let none = || {
            let (found, needed) = (others.len() + 1, updates + 1);
            let needed = format!("a set of at least {needed}");
            Error::invalid("previous weights", format!("{found} versions"), needed)
        };
        found.ok_or_else(none)?.tensor()
    }

    /// Elements of the flat buffers.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The type of gradients, weights that are updated and state.
    pub(super) fn accumulator(&self) -> DType {
        self.values.dtype().accumulator()
    }

    /// Whether replicas hold gradients in shards.
    pub(super) fn shards_gradients(&self) -> bool {
        self.shards_gradients
    }

    /// The gradients in `range`.
    ///
    /// # Errors
    /// None in practice: the range lies within the buffer.
    pub(super) fn own_gradients(&self) -> Result<Option<Tensor>> {
        let own = |all: &Flat| match self.shards_gradients {
            true => all.tensor().cloned(),
            false => all.tensor()?.rows(self.range.start, self.range.len()),
        };
        self.gradients.as_ref().map(own).transpose()
    }

    /// The values of a part of `range`, counted from its start.
    ///
    /// # Errors
    /// None in practice: parts lie within their buckets.
    pub(super) fn own_values(&self, part: &Range<usize>) -> Result<Tensor> {
        let start = self.range.start + part.start;
        self.values.tensor()?.rows(start, part.len())
    }

    /// The part of a parameter that lies in `range`, counted from its start.
    pub(super) fn own_place(&self, index: usize) -> Range<usize> {
        let own = common(&self.places[index], &self.range);
        match own.is_empty() {
            true => 0..0,
            false => own.start - self.range.start..own.end - self.range.start,
        }
    }

    /// Checks that a parameter's uses can be added in an order that no grid changes. Two copies are added in either order with
    /// the same bits; of more, the order would follow the stages.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than two uses over stages.
    pub(super) fn check_tie(&self, parameter: &Parameter, uses: usize) -> Result<()> {
        let stages = self.tied.as_ref().map_or(1, Vec::len);
        match stages > 1 && stages * uses.max(1) > 2 {
            false => Ok(()),
            true => {
                let found = format!(
                    "{} used {uses} times on one of {stages} stages",
                    parameter.name()
                );
                let needed = "one use on each of at most 2 stages";
                Err(Error::invalid("reproducible sums", found, needed))
            }
        }
    }

    /// Queues the sum of the gradients over all replicas; with sharded state, only this rank's range of it is
    /// complete.
    pub(super) fn reduce(&self, context: &Context, stream: &Stream) -> Result<()> {
        match (&self.gradients, self.own_gradients()?) {
            (Some(whole), Some(own)) => self.reduce_into(context, stream, whole.tensor()?, &own),
            _ => Ok(()),
        }
    }

    /// Queues the sum of `whole` over all replicas; with sharded state, into `own` and only for this rank's range.
    pub(super) fn reduce_into(
        &self,
        context: &Context,
        stream: &Stream,
        whole: &Tensor,
        own: &Tensor,
    ) -> Result<()> {
        let subject = Subject::Gradients;
        let wire = context.settings().gradient_wire;
        let dtype = wire.over_data(self.values.dtype());
        let is_cut = self.sum_axes.iter().any(|axis| context.degree(*axis) > 1);
        let narrow = is_cut && dtype != whole.dtype();
        let (sent, received) = match narrow {
            true => {
                let sent = context.buffer(dtype, whole.shape())?;
                ops::cast_into_on(stream, whole, &sent)?;
                let received = match self.is_sharded() {
                    true => context.buffer(dtype, own.shape())?,
                    false => sent.clone(),
                };
                (sent, received)
            }
            false => (whole.clone(), own.clone()),
        };
        for &axis in &self.sum_axes {
            let Some(group) = context.group(axis, Purpose::Bucket)? else {
                continue;
            };
            if axis == Axis::Data && self.is_sharded() {
                group.reduce_scatter(context, subject, stream, &sent, &received, &self.counts)?;
            } else {
                group.all_reduce(context, subject, stream, &sent, ReduceOp::Sum)?;
            }
        }
        match narrow {
            true => ops::cast_into_on(stream, &received, own),
            false => Ok(()),
        }
    }

    /// Queues the sum over the stages that share the parameter: each copy holds the gradient of its own use.
    pub(super) fn reduce_tied(&self, context: &Context, stream: &Stream) -> Result<()> {
        let (Some(members), Some(own)) = (&self.tied, self.own_gradients()?) else {
            return Ok(());
        };
        let label = format!("tied {}", self.parameters[0].name());
        let group = context.group_of(label, Axis::Pipeline, members, Purpose::Bucket)?;
        group.all_reduce(context, Subject::Gradients, stream, &own, ReduceOp::Sum)
    }

    /// Sends every replica the values that the others have updated.
    pub(super) fn gather_values(&self, context: &Context) -> Result<()> {
        self.gather(context, Subject::Gradients, &self.values)
    }

    /// Completes a flat buffer of which every replica has its range.
    pub(super) fn gather(&self, context: &Context, subject: Subject, flat: &Flat) -> Result<()> {
        if !self.is_sharded() {
            return Ok(());
        }
        let Some(group) = context.group(Axis::Data, Purpose::Bucket)? else {
            return Ok(());
        };
        let flat = flat.tensor()?;
        let own = flat.rows(self.range.start, self.range.len())?;
        let compute = context.device().compute();
        group.all_gather(context, subject, &compute, &own, flat, &self.counts)
    }

    /// The full tensor of which every replica holds its range.
    pub(super) fn whole(
        &self,
        context: &Context,
        subject: Subject,
        part: &Tensor,
    ) -> Result<Tensor> {
        if !self.is_sharded() {
            return Ok(part.clone());
        }
        let Some(group) = context.group(Axis::Data, Purpose::Bucket)? else {
            return Ok(part.clone());
        };
        let whole = context.buffer(part.dtype(), &[self.len()])?;
        group.all_gather(
            context,
            subject,
            &context.device().compute(),
            part,
            &whole,
            &self.counts,
        )?;
        Ok(whole)
    }

    /// Weights in the accumulator type, for `range`; a copy, if they are beyond the device.
    ///
    /// # Errors
    /// Those of the store; [`Error::OutOfMemory`] for a copy.
    pub(super) fn weights(&self) -> Result<Tensor> {
        match self.state.master(self.values.device())? {
            Some(master) => Ok(master),
            None => self
                .values
                .tensor()?
                .rows(self.range.start, self.range.len()),
        }
    }

    /// A state tensor, for `range`; a copy, if it is beyond the device.
    ///
    /// # Errors
    /// As [`BucketState::tensor`].
    pub(super) fn state(&self, index: usize) -> Result<Tensor> {
        self.state.tensor(self.values.device(), index)
    }

    /// Elements of each replica's range.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether replicas hold the optimiser's state in shards.
    pub(super) fn is_sharded(&self) -> bool {
        self.range.len() < self.len()
    }
}

/// What lies in both ranges; empty if nothing does.
pub(super) fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

fn places(parameters: &[Parameter]) -> Vec<Range<usize>> {
    let mut start: usize = 0;
    let mut place = |parameter: &Parameter| {
        let begin = start.next_multiple_of(ALIGNMENT);
        start = begin + parameter.stored_len();
        begin..start
    };
    parameters.iter().map(&mut place).collect()
}
