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
    DType, Device, Error, MemoryKind, Result, Stream, StreamKind, Tensor, ops::optimiser::Update,
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
    host: Rc<HostUpdate>,
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
            host: host.clone(),
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

impl ParameterSet {
    /// As [`update_pieces`](Self::update_pieces), for state in memory of the host that updates it.
    ///
    /// # Cost
    /// Gradients leave and weights return once, beside the update of other pieces.
    /// # Errors
    /// As there.
    pub(super) fn update_hosted<E: From<Error>>(
        &self,
        whole: bool,
        rule: &impl Fn(&Parameter) -> UpdateRule,
        update: &mut impl FnMut(f64, &[Update]) -> Result<(), E>,
    ) -> Result<(), E> {
        let buckets = self.buckets_updated(whole);
        let hosted = buckets.filter_map(|bucket| Some((bucket, bucket.state.hosted()?)));
        let pieces =
            hosted.flat_map(|(bucket, state)| state.parts().map(move |part| (bucket, state, part)));
        let mut before: Option<(usize, &Bucket, &HostedState, Range<usize>)> = None;
        for (n, (bucket, state, part)) in pieces.enumerate() {
            let view = |all: &Tensor| all.rows(part.start, part.len());
            let states = state.states.iter().map(view).collect::<Result<Vec<_>>>()?;
            let mut groups = Groups::new();
            let tensors = (&view(&state.master)?, &states[..]);
            state
                .host
                .begin((n, bucket), tensors, &part, rule, &mut groups)?;
            for (rate, updates) in groups {
                update(rate, &updates)?;
            }
            state.host.record(n)?;
            if let Some((n, bucket, state, part)) = before.replace((n, bucket, state, part)) {
                state.host.finish(n, bucket, &part)?;
            }
        }
        match before {
            Some((n, bucket, state, part)) => Ok(state.host.finish(n, bucket, &part)?),
            None => Ok(()),
        }
    }
}
