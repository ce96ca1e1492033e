//! What a forward keeps for its backward, a segment at a time, beyond the device in between.
//!
//! A [`SavedSegment`] knows the memory that was allocated while a segment ran and is still held after it: by the tape, whatever
//! the operations are. [`leave`](SavedSegment::leave) moves all of it to a [`Beyond`], if the segment has one; the tensors stay,
//! without memory. When a backward pass reaches the segment, they have memory again. So no operation knows of it, and no number
//! depends on it. Elements that something uses in between come back for it, too.
//!
//! A backward pass brings back the segment before the one that runs. From memory of the host it brings back earlier ones too, as
//! far as segments that stay have freed as many bytes behind: so those that left between them have more time to return.

use crate::{
    Beyond, Device, MemoryKind, Tensor,
    storage::{Keeper, Storage},
};
use hal::{Error, Result};
use offload::Parked;
use std::{
    cell::{Cell, RefCell},
    fmt,
    ops::Range,
    rc::{Rc, Weak},
};

/// Memory that segments hold in common, such as values between two of them: it is saved with the last one that uses it.
#[derive(Clone, Debug, Default)]
pub struct Carried(Vec<Weak<Storage>>);

impl Carried {
    /// That of these tensors, as far as it is not that of weights or other state.
    pub fn of<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Carried {
        let mut carried = Carried::default();
        for storage in tensors.into_iter().map(Tensor::storage) {
            let is_passing = matches!(
                storage.kind(),
                MemoryKind::Activations | MemoryKind::Buffers
            );
            let storage = Rc::downgrade(storage);
            if is_passing && !carried.holds(&storage) {
                carried.0.push(storage);
            }
        }
        carried
    }

    fn holds(&self, storage: &Weak<Storage>) -> bool {
        self.0.iter().any(|other| other.ptr_eq(storage))
    }
}

/// What one segment's forward has saved.
pub struct SavedSegment {
    // The segment that ran before it, whose backward comes next.
    before: Option<Rc<SavedSegment>>,
    // Where it goes, unless it stays.
    beyond: Option<Rc<Beyond>>,
    state: RefCell<SavedState>,
    has_begun: Cell<bool>,
    // Bytes that left or, of one that stays and whose backward has begun, that its end frees.
    bytes: Cell<usize>,
    // Bytes that those that stay behind it have freed in backward, less those that have come back for later.
    freed: Cell<isize>,
}

enum SavedState {
    /// On the device, and not known completely before the segment's end.
    Here(Vec<Weak<Storage>>),
    /// Elsewhere: each with the place of its first byte; and why it could not come back, if that was tried.
    Away(Parked, Vec<(usize, Weak<Storage>)>, Option<Error>),
    /// On the device, where it stays: it is there again, or its backward has begun.
    Back,
    /// Lost, for this reason.
    Lost(Error),
}

impl SavedSegment {
    /// What a segment will save that runs after the one of `before`, and where it goes; `None` if it stays.
    pub fn after(
        before: Option<Rc<SavedSegment>>,
        beyond: Option<&Rc<Beyond>>,
    ) -> Rc<SavedSegment> {
        Rc::new(SavedSegment {
            before,
            beyond: beyond.cloned(),
            state: RefCell::new(SavedState::Here(Vec::new())),
            has_begun: Cell::new(false),
            bytes: Cell::new(0),
            freed: Cell::new(0),
        })
    }

    /// Runs the segment's forward.
    pub fn collect<T>(self: &Rc<Self>, device: &Device, forward: impl FnOnce() -> T) -> T {
        let outer = device.0.saving.replace(Some(self.clone()));
        let result = forward();
        device.0.saving.replace(outer);
        result
    }

    /// Ends the segment: of what it has allocated, and of what was `carried` into it, the memory of the tensors `live` is carried
    /// on, and the rest is this segment's.
    pub fn close<'a>(
        &self,
        carried: Carried,
        live: impl IntoIterator<Item = &'a Tensor>,
    ) -> Carried {
        let live = Carried::of(live);
        if let SavedState::Here(storages) = &mut *self.state.borrow_mut() {
            storages.extend(carried.0);
            storages.retain(|storage| storage.strong_count() > 0 && !live.holds(storage));
        }
        live
    }

    /// Notes memory that was allocated while the segment ran.
    pub(crate) fn note(&self, storage: &Rc<Storage>) {
        if let SavedState::Here(storages) = &mut *self.state.borrow_mut()
            && storage.kind() == MemoryKind::Activations
        {
            storages.push(Rc::downgrade(storage));
        }
    }

    /// Moves what is saved away from the device, unless it stays or its backward has begun.
    ///
    /// # Cost
    /// The host waits until the segment has run and its values are copied, so that other work should be queued behind it.
    /// # Errors
    /// [`Error::Invalid`] if the host or the disk lacks the room; the failure of the segment's work.
    pub fn leave(self: &Rc<Self>) -> Result<()> {
        let Some(beyond) = self.beyond.as_ref().filter(|_| !self.has_begun.get()) else {
            return Ok(());
        };
        let (mut places, mut bytes) = (Vec::new(), 0);
        {
            let SavedState::Here(storages) = &*self.state.borrow() else {
                return Ok(());
            };
            for storage in storages.iter().filter_map(Weak::upgrade) {
                if storage.may_leave() {
                    places.push((bytes, storage.clone()));
                    bytes += storage.bytes();
                }
            }
        }
        let departures = &beyond.departures;
        let mut fill = |range: Range<usize>, buffer: &mut [u8]| {
            each_part(&places, &range, |storage, from, part| {
                let tensor = Tensor::of_bytes(storage, from, part.len());
                tensor.download_on(departures, &mut buffer[part])
            })
        };
        let parked = beyond.swap.borrow_mut().park(bytes, &mut fill)?;
        self.bytes.set(bytes);
        for (_, storage) in &places {
            storage.leave(self.clone());
        }
        let places = places
            .iter()
            .map(|(start, storage)| (*start, Rc::downgrade(storage)));
        *self.state.borrow_mut() = SavedState::Away(parked, places.collect(), None);
        Ok(())
    }

    /// Makes sure that what is saved is on the device, because the segment's backward begins, and begins to bring back what the
    /// next ones need.
    ///
    /// # Errors
    /// Those of bringing it back: [`Error::OutOfMemory`], and those of the disk.
    pub(crate) fn arrive(self: &Rc<Self>) -> Result<()> {
        let returned = self.bring_back()?;
        if self.has_begun.replace(true) {
            return Ok(());
        }
        self.count_what_stayed();
        let Some(before) = &self.before else {
            return Ok(());
        };
        let mut freed = self.freed.get() - returned - before.bring_back()?;
        let mut earlier = before.before.as_ref();
        while let Some(segment) = earlier {
            if segment.is_away() {
                let bytes = segment.bytes.get() as isize;
                if !segment.comes_from_memory() || bytes > freed {
                    segment.fetch()?;
                    break;
                }
                freed -= segment.bring_back()?;
            }
            earlier = segment.before.as_ref();
        }
        // Its own bytes are free at its end, whether it stayed or came back.
        before.freed.set(freed + self.bytes.get() as isize);
        Ok(())
    }

    // What has left was counted then. What could have left but did not is no room for others: it is the segment's own.
    fn count_what_stayed(&self) {
        if let (SavedState::Here(storages), None) = (&*self.state.borrow(), &self.beyond) {
            let held = storages.iter().filter_map(Weak::upgrade);
            self.bytes.set(held.map(|storage| storage.bytes()).sum());
        }
    }

    fn is_away(&self) -> bool {
        matches!(&*self.state.borrow(), SavedState::Away(..))
    }

    fn comes_from_memory(&self) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| beyond.in_memory)
    }

    fn fetch(&self) -> Result<()> {
        match (&mut *self.state.borrow_mut(), &self.beyond) {
            (SavedState::Away(parked, ..), Some(beyond)) => beyond.swap.borrow_mut().fetch(parked),
            _ => Ok(()),
        }
    }

    // Returns the bytes that came back. Without room for all of them, everything stays where it is.
    fn bring_back(self: &Rc<Self>) -> Result<isize> {
        let Some(beyond) = self.beyond.as_ref().filter(|_| self.is_away()) else {
            return Ok(0);
        };
        let SavedState::Away(parked, places, _) = self.state.replace(SavedState::Back) else {
            unreachable!("a bug: it is away, as seen above");
        };
        let held = |(start, storage): &(usize, Weak<Storage>)| Some((*start, storage.upgrade()?));
        let here: Vec<_> = places.iter().filter_map(held).collect();
        let mut allocated = here.iter().map(|(_, storage)| storage.come_back());
        if let Err(error) = allocated.try_for_each(|back| back) {
            self.leave_again(&here);
            let refused = SavedState::Away(parked, places, Some(error.clone()));
            self.state.replace(refused);
            return Err(error);
        }
        let arrivals = &beyond.arrivals;
        let mut take = |range: Range<usize>, bytes: &[u8]| {
            each_part(&here, &range, |storage, from, part| {
                let tensor = Tensor::of_bytes(storage, from, part.len());
                tensor.upload_bytes_on(arrivals, &bytes[part])
            })
        };
        let returned = beyond.swap.borrow_mut().unpark(parked, &mut take);
        if let Err(error) = &returned {
            self.leave_again(&here);
            self.state.replace(SavedState::Lost(error.clone()));
        }
        returned.map(|()| self.bytes.get() as isize)
    }

    // Blocks without their elements must not be read.
    fn leave_again(self: &Rc<Self>, storages: &[(usize, Rc<Storage>)]) {
        let here = storages
            .iter()
            .filter(|(_, storage)| storage.away().is_none());
        here.for_each(|(_, storage)| storage.leave(self.clone()));
    }
}

impl Keeper for SavedSegment {
    fn bring_back_at_last(self: Rc<Self>) {
        let _ = self.bring_back();
    }

    fn failure(&self) -> Error {
        match &*self.state.borrow() {
            SavedState::Lost(error) | SavedState::Away(_, _, Some(error)) => error.clone(),
            _ => Error::invalid(
                "saved activations",
                "elements that are away",
                "a bug of ours",
            ),
        }
    }
}

// Passes each storage that has bytes in `range` of a run, with the first of them and their place within the range.
fn each_part(
    places: &[(usize, Rc<Storage>)],
    range: &Range<usize>,
    mut work: impl FnMut(&Rc<Storage>, usize, Range<usize>) -> Result<()>,
) -> Result<()> {
    // Those that begin before the range, from the one that holds its first byte on.
    let first = places.partition_point(|(start, storage)| start + storage.bytes() <= range.start);
    for (start, storage) in places[first..]
        .iter()
        .take_while(|(start, _)| *start < range.end)
    {
        let from = range.start.max(*start);
        let until = range.end.min(start + storage.bytes());
        if from < until {
            work(
                storage,
                from - start,
                from - range.start..until - range.start,
            )?;
        }
    }
    Ok(())
}

impl Drop for SavedSegment {
    fn drop(&mut self) {
        let state = std::mem::replace(self.state.get_mut(), SavedState::Back);
        if let (SavedState::Away(parked, ..), Some(beyond)) = (state, &self.beyond) {
            beyond.swap.borrow_mut().discard(parked);
        }
    }
}

impl fmt::Debug for SavedSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.borrow() {
            SavedState::Here(storages) => format!("{} blocks here", storages.len()),
            SavedState::Away(_, places, _) => format!("{} blocks away", places.len()),
            SavedState::Back => "back".into(),
            SavedState::Lost(error) => format!("lost: {error}"),
        };
        write!(f, "SavedSegment({state})")
    }
}
