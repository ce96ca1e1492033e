//! Updates on the host's processors: gradients go there piece by piece, and weights in the type of activations return.

use super::{
    ParameterSet, SetOptions, UpdateRule,
    bucket::Bucket,
    update::{Groups, PartTensors, add},
};
use crate::{Context, Parameter};
use offload::Place;
use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
};
use tensor::{
    DType, Device, Error, Event, MemoryKind, Result, Stream, StreamKind, Tensor,
    ops::{self, optimiser::Update},
};

/// The host's processors, with the streams and buffers through which gradients reach them and weights return.
#[derive(Debug)]
pub(super) struct HostUpdate {
    device: Device,
    departures: Stream,
    arrivals: Stream,
    piece_bytes: usize,
    // The type of gradients, and that of the weights that return.
    dtypes: [DType; 2],
    // Whether an update has ended with an error: some pieces are updated, and others not.
    is_torn: Cell<bool>,
    // Elements of the largest piece so far, and the buffers once all pieces are known.
    largest: Cell<usize>,
    slots: RefCell<Vec<HostSlot>>,
}

/// Buffers of the host for one piece.
#[derive(Debug)]
struct HostSlot {
    gradients: Tensor,
    values: Tensor,
}

/// Pieces of which each has buffers at a time: one is updated while the next one's gradients arrive, or the weights of the one
/// before leave.
const NUM_SLOTS: usize = 2;

/// A bucket's state in memory of the host whose processors update it, with the weights in the accumulator type.
#[derive(Clone, Debug)]
pub(super) struct HostedState {
    pub(super) states: Vec<Tensor>,
    pub(super) master: Tensor,
    piece_len: usize,
}

/// A bucket is cut into at least as many pieces, unless they would be shorter than its alignment.
const LEAST_PIECES: usize = 8;

impl HostUpdate {
    /// Opens this rank's share of the host's processors.
    ///
    /// # Errors
    /// Those of [`Device::open_host`]; [`Error::Vendor`] if a device cannot make a stream.
    pub(super) fn new(context: &Context, options: &SetOptions) -> Result<Rc<HostUpdate>> {
        let [departures, arrivals] = context.links(&Place::Host)?;
        Ok(Rc::new(HostUpdate {
            device: context.host()?,
            departures,
            arrivals,
            piece_bytes: options.places.optimiser.piece_bytes(),
            dtypes: [options.dtype.accumulator(), options.dtype],
            is_torn: Cell::new(false),
            largest: Cell::new(0),
            slots: RefCell::default(),
        }))
    }

    /// The host's processors and memory.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Two streams of the host, there and back, for state that comes from a place of that kind.
    ///
    /// # Errors
    /// [`Error::Vendor`] if it cannot make one.
    pub(super) fn links(&self, kind: StreamKind) -> Result<[Stream; 2]> {
        let [there, back] =
            ["from state", "to state"].map(|name| self.device.create_stream(kind, name));
        Ok([there?, back?])
    }

    /// Takes note of a piece of that many elements, for which buffers must have room.
    pub(super) fn expect(&self, elements: usize) {
        self.largest.set(elements.max(self.largest.get()));
    }

    /// Takes the buffers.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn reserve(&self) -> Result<()> {
        let empty = |dtype| {
            self.device.allocating(MemoryKind::Buffers, || {
                Tensor::empty(&self.device, dtype, &[self.largest.get()])
            })
        };
        let slots = (0..NUM_SLOTS).map(|_| {
            let [gradients, values] = self.dtypes.map(empty);
            Ok(HostSlot {
                gradients: gradients?,
                values: values?,
            })
        });
        self.slots.replace(slots.collect::<Result<_>>()?);
        Ok(())
    }

    /// The factor of gradients where no norm decides it, beside which the norm is unknown.
    ///
    /// # Errors
    /// Those of the host's device.
    pub(super) fn known(&self, factor: f64) -> Result<Tensor> {
        Tensor::from_slice(&self.device, &[2], &[factor, f64::NAN])
    }

    /// A copy of a small tensor of the rank's device.
    ///
    /// # Errors
    /// Those of the devices.
    pub(super) fn copy(&self, source: &Tensor) -> Result<Tensor> {
        let copy = Tensor::empty(&self.device, source.dtype(), source.shape())?;
        let compute = source.device().compute();
        copy.edit_bytes(|bytes| source.download_on(&compute, bytes))?;
        Ok(copy)
    }

    /// Brings the gradients of a part of a bucket's range, the n-th piece, and adds its update to the groups. Weights and states are
    /// those of the part.
    ///
    /// # Errors
    /// Those of the devices.
    pub(super) fn begin(
        &self,
        (n, bucket): (usize, &Bucket),
        (weights, states): (&Tensor, &[Tensor]),
        part: &Range<usize>,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        groups: &mut Groups,
    ) -> Result<()> {
        let Some(gradients) = bucket.own_gradients()? else {
            return Ok(());
        };
        let gradients = gradients.rows(part.start, part.len())?;
        let slots = self.slots.borrow();
        let HostSlot {
            gradients: received,
            values,
        } = &slots[n % NUM_SLOTS];
        let received = received.rows(0, part.len())?;
        received.edit_bytes(|bytes| gradients.download_on(&self.departures, bytes))?;
        let tensors = PartTensors {
            weights,
            gradients: &received,
            states,
            compute: Some(&values.rows(0, part.len())?),
        };
        add(bucket, &tensors, part, rule, groups)
    }

    /// Notes that the update of the n-th piece is queued, behind which the next one's will be.
    ///
    /// # Errors
    /// The failure of an update.
    pub(super) fn record(&self, n: usize) -> Result<()> {
        let slot = &self.slots.borrow()[n % NUM_SLOTS];
        slot.gradients.record_uses()?;
        slot.values.record_uses()
    }

    /// Rounds weights to the type of those that return, for the n-th piece.
    ///
    /// # Errors
    /// The failure of an update.
    fn round(&self, n: usize, weights: &Tensor) -> Result<()> {
        let slot = &self.slots.borrow()[n % NUM_SLOTS];
        let values = slot.values.rows(0, weights.num_elements())?;
        match values.dtype() == weights.dtype() {
            true => ops::copy(weights, &values)?,
            false => ops::cast_into(weights, &values)?,
        }
        slot.values.record_uses()
    }

    /// Returns the weights of the n-th piece, once it is updated.
    ///
    /// # Errors
    /// The failure of the update; those of the device.
    pub(super) fn finish(&self, n: usize, bucket: &Bucket, part: &Range<usize>) -> Result<()> {
        let updated = self.slots.borrow()[n % NUM_SLOTS]
            .values
            .rows(0, part.len())?;
        let values = bucket.own_values(part)?;
        updated.edit_bytes(|bytes| values.upload_bytes_on(&self.arrivals, bytes))
    }
}

impl HostedState {
    /// Zeros: `num_states` tensors of `len` elements, and the weights.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn zeros(
        host: &Rc<HostUpdate>,
        (len, dtype): (usize, DType),
        num_states: usize,
        alignment: usize,
    ) -> Result<HostedState> {
        let zeros = || {
            host.device.allocating(MemoryKind::Optimiser, || {
                Tensor::zeros(&host.device, dtype, &[len])
            })
        };
        let fitting = (host.piece_bytes / dtype.bytes()).min(len / LEAST_PIECES);
        let piece_len = (fitting / alignment * alignment).max(alignment);
        host.expect(piece_len.min(len));
        Ok(HostedState {
            states: (0..num_states).map(|_| zeros()).collect::<Result<_>>()?,
            master: zeros()?,
            piece_len,
        })
    }

    /// A copy of a tensor on the rank's device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the failure of an update.
    pub(super) fn on_device(&self, device: &Device, tensor: &Tensor) -> Result<Tensor> {
        let copy = device.allocating(MemoryKind::Buffers, || {
            Tensor::empty(device, tensor.dtype(), tensor.shape())
        })?;
        tensor.edit_bytes(|bytes| copy.upload_bytes_on(&device.compute(), bytes))?;
        Ok(copy)
    }

    fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (len, piece_len) = (self.master.num_elements(), self.piece_len);
        let starts = (0..len).step_by(piece_len);
        starts.map(move |start| start..(start + piece_len).min(len))
    }
}

/// A part of a bucket with its state.
type HostedPiece<'a> = (&'a Bucket, &'a HostedState, Range<usize>);

impl ParameterSet {
    /// As [`update_pieces`](Self::update_pieces), for state in memory of the host that updates it: the buckets in the order in which
    /// their gradients were reduced. Weights return once the device has passed `backward`, if it is given, which may read the old ones.
    ///
    /// # Cost
    /// Gradients leave and weights return once, beside the update of other pieces. What is updated before `backward` has passed is
    /// rounded once more.
    /// # Errors
    /// As there; [`Error::Invalid`] after an update that has ended with an error.
    pub(super) fn update_hosted<E: From<Error>>(
        &self,
        whole: bool,
        backward: Option<&Event>,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        update: &mut impl FnMut(f64, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(host) = &self.0.room.host else {
            return Ok(());
        };
        if host.is_torn.replace(true) {
            let found = "state of which an update that failed has changed a part";
            let needed = "state loaded from a checkpoint into a new set";
            return Err(Error::invalid("update on the host", found, needed).into());
        }
        let buckets = self.buckets_updated(whole);
        let hosted = buckets.filter_map(|bucket| Some((bucket, bucket.state.hosted()?)));
        let mut hosted: Vec<_> = hosted.collect();
        hosted.sort_by_key(|(bucket, _)| bucket.turn.get());
        let mut pieces: Vec<HostedPiece<'_>> = Vec::new();
        for (bucket, state) in hosted {
            pieces.extend(state.parts().map(|part| (bucket, state, part)));
        }
        let update_piece = |(n, (bucket, state, part)): (usize, &HostedPiece<'_>)| {
            let view = |all: &Tensor| all.rows(part.start, part.len());
            let states = state.states.iter().map(view).collect::<Result<Vec<_>>>()?;
            let mut groups = Groups::new();
            let tensors = (&view(&state.master)?, &states[..]);
            host.begin((n, bucket), tensors, part, rule, &mut groups)?;
            for (rate, updates) in groups {
                update(rate, &updates)?;
            }
            Ok::<(), E>(host.record(n)?)
        };
        let finish = |(n, (bucket, _, part)): (usize, &HostedPiece<'_>)| {
            host.finish(n, bucket, part).map_err(E::from)
        };
        let (mut late, mut has_passed) = (Vec::new(), backward.is_none());
        in_turns(&pieces, update_piece, |(n, piece)| {
            if let Some(backward) = backward.filter(|_| !has_passed) {
                has_passed = backward.is_complete()?;
            }
            match has_passed {
                true => finish((n, piece)),
                false => {
                    late.push(piece.clone());
                    Ok(())
                }
            }
        })?;
        let round = |(n, (_, state, part)): (usize, &HostedPiece<'_>)| {
            let weights = state.master.rows(part.start, part.len())?;
            Ok(host.round(n, &weights)?)
        };
        in_turns(&late, round, finish)?;
        host.is_torn.set(false);
        Ok(())
    }
}

// Begins each piece, and then ends the one before it.
fn in_turns<'a, 'b, E>(
    pieces: &'a [HostedPiece<'b>],
    mut begin: impl FnMut((usize, &'a HostedPiece<'b>)) -> Result<(), E>,
    mut end: impl FnMut((usize, &'a HostedPiece<'b>)) -> Result<(), E>,
) -> Result<(), E> {
    let mut before = None;
    for piece in pieces.iter().enumerate() {
        begin(piece)?;
        if let Some(before) = before.replace(piece) {
            end(before)?;
        }
    }
    before.map_or(Ok(()), end)
}
