//! What came out of a device's clocks.

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
    /// The failure of a message that a stream waits for.
    pub fn now_s(&self) -> Result<f64> {
        self.shared.lock().now()
    }

    /// The host's virtual clock: the launches so far, and what it waited for.
    pub fn host_s(&self) -> f64 {
        self.shared.lock().host
    }

    /// Has the host wait for all streams, as a program does that reads the loss at the end of a step.
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

    /// Where the time since [`begin`](Recorder::begin), or since the last call, went.
    ///
    /// # Errors
    /// As [`now_s`](Recorder::now_s).
    pub fn finish(&self) -> Result<Breakdown> {
        self.shared.lock().finish()
    }

    /// Keeps every piece of work from now on, or none.
    pub fn keep_log(&self, on: bool) {
        self.shared.lock().keep_log(on);
    }

    /// The work kept so far, in the order of starts; the log is empty then.
    pub fn take_log(&self) -> Vec<Work> {
        self.shared.lock().take_log()
    }

    /// The most bytes that the device had allocated at a time.
    pub fn peak_bytes(&self) -> usize {
        self.shared.lock().memory.peak()
    }
}
