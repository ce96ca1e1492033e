//! Queues of work and events, with the waits that tensors ask for.

use crate::{StreamKind, Tensor, trace};
use hal::Result;
use std::{fmt, rc::Rc, sync::Arc};

/// A queue whose work runs in order. Cloning clones the handle.
#[derive(Clone)]
pub struct Stream(Rc<Inner>);

struct Inner {
    hal: Arc<dyn hal::Stream>,
    name: String,
}

/// A point in a stream.
#[derive(Clone, Debug)]
pub struct Event(pub(crate) Arc<dyn hal::Event>);

impl Event {
    /// Whether the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if it had one.
    pub fn is_complete(&self) -> Result<bool> {
        self.0.is_complete()
    }

    /// Waits, on the host, until the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if it had one.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// When the stream passed the point, in microseconds since the device was opened; `None` while it has not.
    ///
    /// # Errors
    /// [`Error::Vendor`](hal::Error::Vendor) when the device does not answer.
    pub fn time_us(&self) -> Result<Option<f64>> {
        self.0.time_us()
    }
}

impl Stream {
    pub(crate) fn new(hal: Arc<dyn hal::Stream>, name: &str) -> Stream {
        Stream(Rc::new(Inner {
            hal,
            name: name.into(),
        }))
    }

    /// Name in traces.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Marks the point that the queue has reached.
    ///
    /// # Errors
    /// The stream's earlier failure, if it had one.
    pub fn record(&self) -> Result<Event> {
        self.0.hal.record().map(Event)
    }

    /// Makes work queued from now on wait for `event`.
    ///
    /// # Errors
    /// The failure of the event's stream, if it had one.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.0.hal.wait(&*event.0)
    }

    /// Waits, on the host, for everything queued so far.
    ///
    /// # Errors
    /// The first failure of queued work.
    pub fn synchronize(&self) -> Result<()> {
        self.0.hal.synchronize()
    }

    pub(crate) fn hal(&self) -> &dyn hal::Stream {
        &*self.0.hal
    }

    pub(crate) fn is(&self, other: &Stream) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Queues `work` that reads and writes these tensors, after all work of other streams that it depends on.
    ///
    /// On a communication stream an event is recorded behind the work, so that later users of the tensors wait for
    /// just this; on the compute stream that is left until somebody needs it.
    pub(crate) fn queue(
        &self,
        name: &'static str,
        reads: &[&Tensor],
        writes: &[&Tensor],
        work: impl FnOnce(&dyn hal::Stream) -> Result<()>,
    ) -> Result<()> {
        let device = reads
            .iter()
            .chain(writes)
            .next()
            .map(|tensor| tensor.device().clone());
        if let Some(device) = &device
            && let Some(notes) = &*device.0.recorded.borrow()
        {
            notes.use_of(name, device, self, reads.iter().chain(writes).copied())?;
        }
        for tensor in reads {
            tensor.storage().order_after(self, false)?;
        }
        for tensor in writes {
            tensor.storage().order_after(self, true)?;
        }
        let span = device
            .as_ref()
            .map(|device| trace::begin(device, self))
            .transpose()?
            .flatten();
        work(self.hal())?;
        if let (Some(device), Some(start)) = (&device, span) {
            let bytes = writes.iter().map(|tensor| tensor.bytes()).sum();
            trace::end(device, self, name, start, bytes)?;
        }
        let event = match self.0.hal.kind() {
            StreamKind::Compute => None,
            StreamKind::Communication => Some(self.record()?),
        };
        for tensor in reads {
            tensor.storage().note_use(self, event.as_ref(), false);
        }
        for tensor in writes {
            tensor.storage().note_use(self, event.as_ref(), true);
        }
        Ok(())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.0.name, self.0.hal.device_id())
    }
}
