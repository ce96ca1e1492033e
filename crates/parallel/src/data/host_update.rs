//! The host's processors, to which gradients come piece by piece and from which weights return.

use super::{
    SetOptions, UpdateRule,
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
use tensor::{DType, Device, Error, MemoryKind, Result, Stream, StreamKind, Tensor, ops};

/// The host's processors, with the streams and buffers through which gradients reach them and weights return.
#[derive(Debug)]
pub(super) struct HostUpdate {
    device: Device,
    departures: Stream,
    arrivals: Stream,
    /// The most bytes of a piece of one tensor.
    pub(super) piece_bytes: usize,
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

    /// Begins an update of all pieces: until [`mend`](HostUpdate::mend) some are updated, and others not.
    ///
    /// # Errors
    /// [`Error::Invalid`] after an update that has ended with an error.
    pub(super) fn tear(&self) -> Result<()> {
        match self.is_torn.replace(true) {
            false => Ok(()),
            true => {
                let found = "state of which an update that failed has changed a part";
                let needed = "state loaded from a checkpoint into a new set";
                Err(Error::invalid("update on the host", found, needed))
            }
        }
    }

    /// Ends an update of all pieces.
    pub(super) fn mend(&self) {
        self.is_torn.set(false);
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

    /// Takes the buffers, locked for the rank's `device` if it [can](Device::locks_pages).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Vendor`].
    pub(super) fn reserve(&self, device: &Device) -> Result<()> {
        let empty = |dtype| {
            let shape = [self.largest.get()];
            match device.locks_pages() {
                true => Tensor::zeros_locked_for(device, &self.device, dtype, &shape),
                false => self.device.allocating(MemoryKind::Buffers, || {
                    Tensor::empty(&self.device, dtype, &shape)
                }),
            }
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

    /// Rounds weights to the type of those that return, for the n-th piece.
    ///
    /// # Errors
    /// The failure of an update.
    pub(super) fn round(&self, n: usize, weights: &Tensor) -> Result<()> {
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
