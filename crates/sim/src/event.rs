//! Points in streams, as times of the virtual clock.

use crate::state::Shared;
use hal::{Error, Event, Result};
use std::{any::Any, sync::Arc};

/// An event of this vendor: the device holds its point.
#[derive(Debug)]
pub(crate) struct SimEvent {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
}

impl SimEvent {
    /// The number of an event of this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] if another device made it.
    pub(crate) fn index(event: &dyn Event, device: &Arc<Shared>) -> Result<usize> {
        let own = event.as_any().downcast_ref::<SimEvent>();
        own.filter(|event| Arc::ptr_eq(&event.shared, device))
            .map(|event| event.index)
            .ok_or_else(|| {
                let needed = format!("one of {}", device.id);
                Error::invalid("event", "one of another device", needed)
            })
    }
}

// SAFETY: an event's time is the end of all work before it, and it is complete only once the host's clock has
// reached that time.
unsafe impl Event for SimEvent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_complete(&self) -> Result<bool> {
        self.shared.lock().is_complete(self.index)
    }

    fn synchronize(&self) -> Result<()> {
        let mut state = self.shared.lock();
        let at = state.event_time(self.index)?;
        state.host_reaches(at);
        Ok(())
    }

    fn time_us(&self) -> Result<Option<f64>> {
        self.shared
            .lock()
            .event_time(self.index)
            .map(|seconds| Some(seconds * 1e6))
    }
}

impl Drop for SimEvent {
    fn drop(&mut self) {
        self.shared.lock().forget(self.index);
    }
}
