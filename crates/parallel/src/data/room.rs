//! What holds a rank's state beyond the device.

use super::{
    SetOptions, StatePlacement, UpdatePlace, host_update::HostUpdate, pages::Pages,
    placement::StateStore,
};
use crate::{Context, Mode};
use std::rc::Rc;
use tensor::Result;

/// The store of the optimiser's state, and the pages of weights and gradients, as far as they are beyond the device.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// If the host updates the state.
    pub(super) host: Option<Rc<HostUpdate>>,
    /// What holds state that comes in pieces to what updates it.
    pub(super) store: Option<Rc<StateStore>>,
    pub(super) weights: Option<Rc<Pages>>,
    pub(super) gradients: Option<Rc<Pages>>,
}

impl Room {
    /// For a set of these options.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if a file cannot be made; [`Error::Vendor`](tensor::Error::Vendor) if the
    /// device cannot make a stream.
    pub(super) fn new(context: &Context, options: &SetOptions) -> Result<Room> {
        let (places, accumulator) = (&options.places, options.dtype.accumulator());
        let host = match places.update {
            UpdatePlace::Host if options.trains => Some(HostUpdate::new(context, options)?),
            _ => None,
        };
        // In the memory of those who update it, it need not come.
        let stored = match (&host, &places.optimiser) {
            (Some(_), StatePlacement::Host { .. }) => &StatePlacement::Device,
            (_, place) => place,
        };
        Ok(Room {
            store: StateStore::new(context, stored, accumulator, host.as_ref())?,
            host,
            weights: Pages::new(context, &places.weights, "weights")?,
            gradients: match options.trains {
                true => Pages::new(context, &places.gradients, "gradients")?,
                false => None,
            },
        })
    }

    /// For a further version of the parameters, which has the state of the first.
    pub(super) fn version(&self) -> Room {
        Room {
            store: None,
            ..self.clone()
        }
    }

    /// Takes the memory or the space of everything.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the host or the disk lacks it;
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn reserve(&self, context: &Context) -> Result<()> {
        if let Some(host) = &self.host {
            host.reserve(context.device())?;
        }
        if let Some(store) = &self.store {
            store.reserve(context.device())?;
        }
        let mut pages = [&self.weights, &self.gradients].into_iter().flatten();
        pages.try_for_each(|pages| pages.reserve())
    }

    /// A step or an evaluation begins.
    pub(super) fn begin(&self, mode: Mode) {
        let pages = [&self.weights, &self.gradients];
        pages
            .into_iter()
            .flatten()
            .for_each(|pages| pages.begin(mode));
    }
}
