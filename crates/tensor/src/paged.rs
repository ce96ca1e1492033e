//! One tensor's memory that is beyond the device while nothing uses it, such as a run of weights.
//!
//! Unlike [what a segment has saved](crate::SavedSegment), it comes and goes again and again. Its place beyond the device stays its
//! own, so elements that nothing has written since they came from there leave without being copied.

use crate::{
    Beyond, DType, Tensor,
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

/// The memory of a tensor, on its device or beyond it.
pub struct Paged {
    storage: Weak<Storage>,
    dtype: DType,
    bytes: usize,
    beyond: Rc<Beyond>,
    // Its place beyond the device, once it has left.
    parked: RefCell<Option<Parked>>,
    // The version of the storage whose elements are there.
    stored: Cell<Option<u64>>,
    state: RefCell<State>,
}

#[derive(Clone, Debug)]
enum State {
    Here,
    /// Beyond the device; and why it could not come back, if that was tried.
    Away(Option<Error>),
    /// Zeros, of which nothing is stored; and the same.
    Zeros(Option<Error>),
    /// Lost, for this reason.
    Lost(Error),
}

impl Paged {
    /// That of `tensor` and of all tensors that share its memory. Their elements become zeros, which take no memory before their
    /// first use. Memory that recorded work or another owner holds stays where it is, with its elements.
    pub fn zeros(tensor: &Tensor, beyond: &Rc<Beyond>) -> Rc<Paged> {
        let storage = tensor.storage();
        let paged = Rc::new(Paged {
            storage: Rc::downgrade(storage),
            dtype: tensor.dtype(),
            bytes: storage.bytes(),
            beyond: beyond.clone(),
            parked: RefCell::default(),
            stored: Cell::new(None),
            state: RefCell::new(State::Here),
        });
        if storage.may_leave() {
            paged.state.replace(State::Zeros(None));
            storage.leave(paged.clone());
        }
        paged
    }

    /// Bytes of the memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is on the device.
    pub fn is_here(&self) -> bool {
        matches!(&*self.state.borrow(), State::Here)
    }

    /// Whether it is on the device, and would be copied to leave.
    pub fn is_changed(&self) -> bool {
        let storage = self.storage.upgrade().filter(|_| self.is_here());
        storage.is_some_and(|storage| self.stored.get() != Some(storage.version()))
    }

    /// Records where the uses end that are queued so far: to [leave](Paged::leave), elements then wait for these alone, and not for
    /// what the compute stream is given in the meantime.
    ///
    /// # Errors
    /// The failure of a stream that uses the elements.
    pub fn record_uses(&self) -> Result<()> {
        let storage = self.storage.upgrade();
        storage.map_or(Ok(()), |storage| storage.record_uses())
    }

    /// Makes the elements zeros if they are beyond the device, so that nothing is read when they are used next.
    pub fn forget(&self) {
        let mut state = self.state.borrow_mut();
        if let State::Away(_) = &*state {
            *state = State::Zeros(None);
        }
    }

    /// Moves the elements away from the device. They are copied if they were written since they came back, or have never left.
    ///
    /// # Cost
    /// For a copy the host waits until the elements are computed and copied, so that other work should be queued behind it.
    /// # Errors
    /// [`Error::Invalid`] if the host or the disk lacks the room; the failure of the work that writes the elements.
    pub fn leave(self: &Rc<Self>) -> Result<()> {
        let Some(storage) = self.storage.upgrade().filter(|_| self.is_here()) else {
            return Ok(());
        };
        if !storage.may_leave() {
            return Ok(());
        }
        let version = storage.version();
        if self.stored.get() != Some(version) {
            self.store(&storage)?;
            self.stored.set(Some(version));
        }
        self.state.replace(State::Away(None));
        storage.leave(self.clone());
        Ok(())
    }

    fn store(&self, storage: &Rc<Storage>) -> Result<()> {
        self.stored.set(None);
        let mut swap = self.beyond.swap.borrow_mut();
        let mut fill = |range: Range<usize>, buffer: &mut [u8]| {
            let part = Tensor::of_bytes(storage, range.start, range.len());
            part.download_on(&self.beyond.departures, buffer)
        };
        let mut parked = self.parked.borrow_mut();
        match &mut *parked {
            Some(parked) => swap.rewrite(parked, &mut fill),
            None => {
                *parked = Some(swap.park(self.bytes, &mut fill)?);
                Ok(())
            }
        }
    }

    /// Begins to read the elements from their file, if they are in one.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the host has no room for them.
    pub fn fetch(&self) -> Result<()> {
        match (&*self.state.borrow(), &mut *self.parked.borrow_mut()) {
            (State::Away(_), Some(parked)) => self.beyond.swap.borrow_mut().fetch(parked),
            _ => Ok(()),
        }
    }

    /// Brings the elements back to the device. Work that is queued afterwards waits for the copy, and the host for a disk alone.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; those of the disk, after which the elements are lost.
    pub fn arrive(self: &Rc<Self>) -> Result<()> {
        let Some(storage) = self.storage.upgrade() else {
            return Ok(());
        };
        let state = self.state.borrow().clone();
        match state {
            State::Here => Ok(()),
            State::Lost(error) => Err(error),
            State::Away(_) => {
                let (back, version) = (storage.come_back(), storage.version());
                self.note(back, State::Away)?;
                match self.read(&storage) {
                    Ok(()) => {
                        self.state.replace(State::Here);
                        storage.restore_version(version);
                        Ok(())
                    }
                    Err(error) => {
                        // A block without its elements must not be read.
                        self.state.replace(State::Lost(error.clone()));
                        storage.leave(self.clone());
                        Err(error)
                    }
                }
            }
            State::Zeros(_) => {
                let back = storage.come_back();
                self.note(back, State::Zeros)?;
                self.state.replace(State::Here);
                self.stored.set(None);
                let elements = self.bytes / self.dtype.bytes();
                Tensor::of(&storage, self.dtype, elements).fill(0.0)
            }
        }
    }

    // Without room, everything stays where it is.
    fn note(&self, back: Result<()>, state: impl FnOnce(Option<Error>) -> State) -> Result<()> {
        if let Err(error) = &back {
            self.state.replace(state(Some(error.clone())));
        }
        back
    }

    fn read(&self, storage: &Rc<Storage>) -> Result<()> {
        let mut take = |range: Range<usize>, bytes: &[u8]| {
            let part = Tensor::of_bytes(storage, range.start, range.len());
            part.upload_bytes_on(&self.beyond.arrivals, bytes)
        };
        match &mut *self.parked.borrow_mut() {
            Some(parked) => self.beyond.swap.borrow_mut().read(parked, &mut take),
            None => unreachable!("a bug: elements that are away have a place there"),
        }
    }
}

impl Keeper for Paged {
    fn bring_back_at_last(self: Rc<Self>) {
        let _ = self.arrive();
    }

    fn failure(&self) -> Error {
        match &*self.state.borrow() {
            State::Lost(error) | State::Away(Some(error)) | State::Zeros(Some(error)) => {
                error.clone()
            }
            _ => Error::invalid("a tensor", "elements that are away", "a bug of ours"),
        }
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        if let Some(parked) = self.parked.get_mut().take() {
            self.beyond.swap.borrow_mut().discard(parked);
        }
    }
}

impl fmt::Debug for Paged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paged({} bytes, {:?})", self.bytes, self.state.borrow())
    }
}
