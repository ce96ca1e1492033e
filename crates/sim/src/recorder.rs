//! Results read from a device's clocks.

use crate::{Breakdown, Work, state::Shared};
use hal::Result;
use std::sync::Arc;

/// Reads the clocks of one device, beside the program that runs on it. Cloning clones the handle.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Shared>) -> Recorder {
        Recorder { shared }
    }

    /// The end of all work queued so far, in virtual seconds since the device was opened.
    ///
    /// # Errors
    /// [`Error::Mismatch`](hal::Error::Mismatch), [`Error::Timeout`](hal::Error::Timeout) or
    /// [`Error::Aborted`](hal::Error::Aborted) of a collective or message that a stream waits for.
    pub fn now_s(&self) -> Result<f64> {
        self.shared.lock().now()
    }

    /// The host's virtual clock: the launches so far, and its waits.
    pub fn host_s(&self) -> f64 {
        self.shared.lock().host
    }

    /// Makes the host wait for all streams, like a program that reads the loss at the end of a step.
    ///
    /// # Errors
    /// As [`now_s`](Recorder::now_s).
    pub fn synchronize(&self) -> Result<()> {
        let mut state = self.shared.lock();
        let now = state.now()?;
        state.host_reaches(now);
        Ok(())
    }

    /// Starts a breakdown from now.
    ///
    /// # Errors
    /// As [`now_s`](Recorder::now_s).
    pub fn begin(&self) -> Result<()> {
        self.shared.lock().begin()
    }

    /// How the time since [`begin`](Recorder::begin), or since the last call, was spent.
    ///
    /// # Errors
    /// As [`now_s`](Recorder::now_s).
    pub fn finish(&self) -> Result<Breakdown> {
        self.shared.lock().finish()
    }

    /// Switches the log of every piece of work on or off.
    pub fn keep_log(&self, on: bool) {
        self.shared.lock().keep_log(on);
    }

    /// Returns the work logged so far, in the order of starts, and empties the log.
    pub fn take_log(&self) -> Vec<Work> {
        self.shared.lock().take_log()
    }

    /// The peak number of bytes that the device had allocated.
    pub fn peak_bytes(&self) -> usize {
        self.shared.lock().memory.peak()
    }
}
