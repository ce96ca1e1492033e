//! Where each kind of state is, and the store that holds the optimiser's if it is not on the device.

use super::{UpdatePlace, host_update::HostUpdate};
use crate::Context;
use offload::{FileSystem, Place, Store};
use std::{cell::RefCell, path::PathBuf, rc::Rc, sync::Arc};
use tensor::{DType, Device, MemoryKind, Result, Stream, StreamKind, Tensor};

/// Where state is while nothing uses it: the optimiser's between steps, with the weights in the accumulator type where the
/// model computes in a narrower one; weights and gradients while no layer uses them; or activations between forward and backward.
///
/// The optimiser's state moves in pieces. While the update of one runs, the next is fetched and the one before returns. Weights
/// and gradients come to the device bucket by bucket, the next one ahead of its use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatePlacement {
    /// On the device.
    #[default]
    Device,
    /// In memory of the host (ZeRO-Offload). Where the host is the device, this is memory that the limit of the device's does
    /// not count.
    Host {
        /// The most bytes of a piece.
        piece_bytes: usize,
    },
    /// In a file of this folder for each rank (ZeRO-Infinity), which ends with the run.
    Files {
        /// The folder, which may be another one on each host.
        folder: PathBuf,
        /// The most bytes of a piece.
        piece_bytes: usize,
    },
}

/// Where each kind of a rank's state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePlaces {
    /// The optimiser's state, and the weights in the accumulator type.
    pub optimiser: StatePlacement,
    /// What updates the weights: the host only where the optimiser's state is beyond the device.
    pub update: UpdatePlace,
    /// The weights that forward and backward read.
    pub weights: StatePlacement,
    /// Gradients.
    pub gradients: StatePlacement,
}

impl StatePlaces {
    /// Everything on the device.
    pub const DEVICE: StatePlaces = StatePlaces {
        optimiser: StatePlacement::Device,
        update: UpdatePlace::Device,
        weights: StatePlacement::Device,
        gradients: StatePlacement::Device,
    };

    /// Whether weights or gradients are beyond the device.
    pub fn has_pages(&self) -> bool {
        self.weights.is_beyond() || self.gradients.is_beyond()
    }
}

impl StatePlacement {
    /// Whether there is state beyond the device.
    pub fn is_beyond(&self) -> bool {
        *self != StatePlacement::Device
    }

    /// The most bytes of a piece; 0 for state on the device.
    pub fn piece_bytes(&self) -> usize {
        match self {
            StatePlacement::Device => 0,
            StatePlacement::Host { piece_bytes } | StatePlacement::Files { piece_bytes, .. } => {
                *piece_bytes
            }
        }
    }

    /// The place beyond the device, if state is there.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            StatePlacement::Device => None,
            StatePlacement::Host { .. } => Some(Place::Host),
            StatePlacement::Files { folder, .. } => Some(Place::Files {
                disk: Arc::new(FileSystem),
                folder: folder.clone(),
            }),
        }
    }
}

/// A rank's state beyond the device, with the streams and the buffers through which pieces pass: those of the device, or of the
/// host if it updates them.
#[derive(Debug)]
pub(super) struct StateStore {
    pub(super) store: RefCell<Store>,
    pub(super) piece_bytes: usize,
    pub(super) host: Option<Rc<HostUpdate>>,
    dtype: DType,
    pub(super) arrivals: Stream,
    pub(super) returns: Stream,
    // Elements of the largest piece so far, and two buffers for it once all pieces are known.
    largest: RefCell<usize>,
    slots: RefCell<Vec<Tensor>>,
}

/// Pieces of which each has a buffer at a time: one is updated while the next arrives or the one before returns.
const NUM_SLOTS: usize = 2;

impl StateStore {
    /// An empty store of numbers of this type; `None` for state on the device.
    ///
    /// # Errors
    /// [`Error::Vendor`](tensor::Error::Vendor) if the device cannot make a stream.
    pub(super) fn new(
        context: &Context,
        placement: &StatePlacement,
        dtype: DType,
        host: Option<&Rc<HostUpdate>>,
    ) -> Result<Option<Rc<StateStore>>> {
        let Some(place) = placement.place() else {
            return Ok(None);
        };
        let device = context.device();
        let [returns, arrivals] = match host {
            None => context.links(&place)?,
            Some(host) => host.links(StreamKind::Files)?,
        };
        let place = match device.capabilities().holds_values {
            true => place,
            false => Place::Nowhere,
        };
        let owner = format!("the optimiser's state of rank {}", context.world().rank());
        Ok(Some(Rc::new(StateStore {
            store: RefCell::new(Store::new(owner, place)),
            piece_bytes: placement.piece_bytes(),
            host: host.cloned(),
            dtype,
            arrivals,
            returns,
            largest: RefCell::new(0),
            slots: RefCell::default(),
        })))
    }

    /// Adds a piece of `elements` numbers to the store, and returns the piece's number.
    pub(super) fn add(&self, elements: usize) -> usize {
        let largest = elements.max(*self.largest.borrow());
        self.largest.replace(largest);
        self.store.borrow_mut().add(elements * self.dtype.bytes())
    }

    /// Takes the memory or the space of all pieces, and the buffers.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the host or the disk lacks it;
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory); [`Error::Vendor`](tensor::Error::Vendor).
    pub(super) fn reserve(&self, device: &Device) -> Result<()> {
        let device = self.host.as_ref().map_or(device, |host| host.device());
        self.store.borrow_mut().reserve(&**device.hal())?;
        let slot = || {
            device.allocating(MemoryKind::Optimiser, || {
                Tensor::empty(device, self.dtype, &[*self.largest.borrow()])
            })
        };
        let slots = (0..NUM_SLOTS).map(|_| slot()).collect::<Result<_>>()?;
        self.slots.replace(slots);
        Ok(())
    }

    /// The first `elements` numbers of the buffer for the n-th piece of a walk.
    ///
    /// # Errors
    /// None in practice: no piece is larger than the buffer.
    pub(super) fn slot(&self, n: usize, elements: usize) -> Result<Tensor> {
        self.slots.borrow()[n % NUM_SLOTS].rows(0, elements)
    }
}
