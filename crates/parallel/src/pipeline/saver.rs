//! Activations beyond the device: what a segment has saved leaves behind the segment that runs next, and comes back ahead of its
//! backward. Which segments' does, and where to, is the [memory](crate::memory) of the model.

use super::part::Live;
use crate::{
    Context,
    memory::{ActivationMemory, PlaceKind, SegmentMemory},
};
use offload::Place;
use std::{cell::RefCell, rc::Rc};
use tensor::{Beyond, Carried, Device, Result, SavedSegment};

/// A rank's room for activations, and the segment that has run last.
#[derive(Debug)]
pub(super) struct Saver {
    device: Device,
    host: Option<Rc<Beyond>>,
    files: Option<Rc<Beyond>>,
    // It leaves once there is other work behind it, and not at all if its backward comes first.
    last: RefCell<Option<Rc<SavedSegment>>>,
}

impl Saver {
    /// For the segments of a rank's stage; `None` if what they keep stays on the device.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if a file cannot be made; [`Error::Vendor`](tensor::Error::Vendor) if the
    /// device cannot make a stream.
    pub(super) fn new(
        context: &Context,
        memory: &ActivationMemory,
        own: &[SegmentMemory],
    ) -> Result<Option<Saver>> {
        let device = context.device().clone();
        let owner = format!("rank {}", context.world().rank());
        let room = |kind: PlaceKind, place: Place| {
            let is_used = own.iter().any(|segment| segment.place == kind);
            let new = || {
                let links = context.links(&place)?;
                let of = ("activations", owner.as_str());
                Beyond::new(&device, of, (&place, memory.piece_bytes), links)
            };
            is_used.then(new).transpose()
        };
        let in_files = Place::Files {
            disk: memory.disk.0.clone(),
            folder: memory.folder.clone(),
        };
        let host = room(PlaceKind::Host, Place::Host)?;
        let files = room(PlaceKind::Files, in_files)?;
        Ok((host.is_some() || files.is_some()).then_some(Saver {
            device,
            host,
            files,
            last: RefCell::default(),
        }))
    }

    fn beyond(&self, place: PlaceKind) -> Option<&Rc<Beyond>> {
        match place {
            PlaceKind::Device => None,
            PlaceKind::Host => self.host.as_ref(),
            PlaceKind::Files => self.files.as_ref(),
        }
    }

    /// Bytes of the host and of a file with room for everything that has been there at a time.
    pub(super) fn num_bytes(&self) -> [u64; 2] {
        let of =
            |beyond: &Option<Rc<Beyond>>| beyond.as_ref().map_or(0, |beyond| beyond.num_bytes());
        [of(&self.host), of(&self.files)]
    }

    /// Takes the memory and the space for these.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the host or the disk has no room for it;
    /// [`Error::Vendor`](tensor::Error::Vendor).
    pub(super) fn reserve(&self, bytes: [u64; 2]) -> Result<()> {
        let places = [&self.host, &self.files].into_iter().zip(bytes);
        let mut used = places.filter_map(|(beyond, bytes)| Some((beyond.as_ref()?, bytes)));
        used.try_for_each(|(beyond, bytes)| beyond.reserve(bytes))
    }
}

/// The segments of one part's forward.
pub(super) struct PartSaver<'a> {
    saver: Option<&'a Saver>,
    before: Option<Rc<SavedSegment>>,
    carried: Carried,
}

impl<'a> PartSaver<'a> {
    /// For a part that begins with these wires. Without a saver, its activations stay where they are.
    pub(super) fn new(saver: Option<&'a Saver>, live: &Live) -> PartSaver<'a> {
        PartSaver {
            saver,
            before: None,
            carried: Carried::of(live.tensors()),
        }
    }

    /// Runs one segment, or several that are one for backward, whose memory is in this place between the two.
    ///
    /// # Errors
    /// Those of the segment; [`Error::Invalid`](tensor::Error::Invalid) if there is no room for what the one before has saved.
    pub(super) fn segment<T>(
        &mut self,
        place: PlaceKind,
        live: &mut Live,
        forward: impl FnOnce(&mut Live) -> Result<T>,
    ) -> Result<T> {
        let Some(saver) = self.saver else {
            return forward(live);
        };
        let saved = SavedSegment::after(self.before.take(), saver.beyond(place));
        let result = saved.collect(&saver.device, || forward(live))?;
        let carried = std::mem::take(&mut self.carried);
        self.carried = saved.close(carried, live.tensors());
        self.before = Some(saved.clone());
        if let Some(last) = saver.last.replace(Some(saved)) {
            last.leave()?;
        }
        Ok(result)
    }
}
