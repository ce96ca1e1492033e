//! Recorded work: recorded once, queued many times.
//!
//! A step of many small kernels can keep the host busier than the device. Recorded, it is queued in one call. A
//! recording reads and writes at the addresses it used when it was recorded, so it holds all of that memory:
//! the tensors that its work uses, and the memory allocated and freed during the recording, which nobody else
//! receives.

use crate::{Arguments, Device, Stream, storage::Storage};
use hal::{Error, RawBuffer, Result};
use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    rc::{Rc, Weak},
};

/// Recorded work of a device's compute stream.
pub struct Recording {
    hal: Box<dyn hal::Recording>,
    device: Device,
    // And whether it writes them.
    storages: Vec<(Rc<Storage>, bool)>,
    blocks: Vec<RawBuffer>,
}

/// Notes taken while work is recorded.
#[derive(Default)]
pub(crate) struct Notes {
    // Memory that existed before and that the work uses, with whether it writes there, and memory that it allocates.
    used: RefCell<HashMap<*const Storage, (Rc<Storage>, bool)>>,
    made: RefCell<HashMap<*const Storage, Weak<Storage>>>,
}

impl Device {
    /// Runs `work` once, so that everything it needs exists, and then records it. Its results are where each
    /// [replay](Recording::replay) leaves them.
    ///
    /// Within `work`, only operations on tensors may be queued, all on the compute stream. Nothing may be
    /// copied from or to the host. Numbers that operations take by value, such as a learning rate, keep their
    /// recorded value. Recorded work must allocate the same memory in every run, so it is best to run it
    /// before.
    ///
    /// # Errors
    /// [`Error::Invalid`] on a device that cannot record, within another recording or while a trace is taken, and for
    /// work that cannot be recorded; [`Error::Vendor`]; the failure of `work`.
    pub fn record<T, E: From<Error>>(
        &self,
        mut work: impl FnMut() -> Result<T, E>,
    ) -> Result<(Recording, T), E> {
        if self.0.recorded.borrow().is_some() || self.0.tracer.borrow().is_some() {
            let needed = "no other recording and no trace at the same time";
            return Err(Error::invalid("recorded work", "a recording", needed).into());
        }
        *self.0.recorded.borrow_mut() = Some(Rc::default());
        self.0.memory.begin_private();
        let outcome = self.capture(&mut work);
        let notes = self.0.recorded.take().unwrap_or_default();
        let blocks = self.0.memory.end_private();
        match outcome {
            Ok((hal, result)) => Ok((
                Recording {
                    hal,
                    device: self.clone(),
                    storages: notes.storages(),
                    blocks,
                },
                result,
            )),
            Err(error) => {
                self.0.memory.release(blocks);
                Err(error)
            }
        }
    }

    fn capture<T, E: From<Error>>(
        &self,
        work: &mut impl FnMut() -> Result<T, E>,
    ) -> Result<(Box<dyn hal::Recording>, T), E> {
        drop(work()?);
        let mut result = None;
        let compute = self.compute();
        let recorded = compute.hal()?.capture(&mut || {
            let outcome = work();
            result = Some(outcome.and_then(|result| Ok(compute.release().map(|()| result)?)));
            match &result {
                Some(Ok(_)) => Ok(()),
                // The full error is made below.
                _ => Err(Error::invalid(
                    "recorded work",
                    "its failure",
                    "its success",
                )),
            }
        });
        match (recorded, result) {
            (_, Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error.into()),
            (Ok(recorded), Some(Ok(result))) => Ok((recorded, result)),
            (Ok(_), None) => Err(Error::invalid(
                "recorded work",
                "work that was not run",
                "a device that runs it",
            )
            .into()),
        }
    }

    /// Fails while work is recorded, because a copy by the host would happen once and not in each replay.
    pub(crate) fn not_recorded(&self, operation: &str) -> Result<()> {
        match self.0.recorded.borrow().is_some() {
            true => Err(Error::invalid(
                operation,
                "a copy by the host within recorded work",
                "work of the device alone",
            )),
            false => Ok(()),
        }
    }
}

impl Notes {
    /// Records that work on `stream` uses these tensors.
    pub(crate) fn use_of(
        &self,
        name: &str,
        device: &Device,
        stream: &Stream,
        arguments: &Arguments<'_>,
    ) -> Result<()> {
        if !stream.is(&device.compute()) {
            let found = format!("work on stream {} within recorded work", stream.name());
            return Err(Error::invalid(name, found, "work on the compute stream"));
        }
        for (storage, access) in arguments
            .uses()
            .map(|(tensor, access)| (tensor.storage(), access))
        {
            if storage.has_use_beside(stream) {
                return Err(Error::invalid(
                    name,
                    "a tensor that another stream uses",
                    "one of the compute stream",
                ));
            }
            let address = Rc::as_ptr(storage);
            if !self.made.borrow().contains_key(&address) {
                let mut used = self.used.borrow_mut();
                let (_, writes) = used
                    .entry(address)
                    .or_insert_with(|| (storage.clone(), false));
                *writes |= access.writes();
            }
        }
        Ok(())
    }

    /// Records a tensor's memory allocated during the recording.
    pub(crate) fn make(&self, storage: &Rc<Storage>) {
        self.made
            .borrow_mut()
            .insert(Rc::as_ptr(storage), Rc::downgrade(storage));
    }

    // All memory that replays touch, except memory allocated and freed during the recording.
    fn storages(&self) -> Vec<(Rc<Storage>, bool)> {
        let made = self
            .made
            .take()
            .into_values()
            .filter_map(|made| Some((made.upgrade()?, true)));
        let all: Vec<_> = self.used.take().into_values().chain(made).collect();
        all.iter().for_each(|(storage, _)| storage.pin());
        all
    }
}

impl Recording {
    /// Queues the recorded work on the compute stream.
    ///
    /// # Errors
    /// [`Error::Vendor`]; the failure of another stream that uses the same tensors.
    pub fn replay(&self) -> Result<()> {
        let compute = self.device.compute();
        self.storages
            .iter()
            .try_for_each(|(storage, writes)| storage.order_after(&compute, *writes))?;
        // SAFETY: the recording holds all memory that its work uses: that of the tensors, and the blocks
        // allocated and freed meanwhile, which only the compute stream uses, in the order of its queue.
        let outcome = unsafe { self.hal.launch(compute.hal()?) };
        for (storage, writes) in &self.storages {
            storage.note_use(&compute, None, *writes, outcome.is_ok());
        }
        outcome
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.device
            .0
            .memory
            .release(std::mem::take(&mut self.blocks));
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Recording({:?}, {} tensors, {} blocks)",
            self.hal,
            self.storages.len(),
            self.blocks.len()
        )
    }
}
