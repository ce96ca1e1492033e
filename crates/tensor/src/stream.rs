//! Queues of work and events, with the waits that tensors require.

use crate::{Arguments, Device, device::DeviceKey, held::Held, trace};
use hal::{Kernel, Result};
use std::{fmt, rc::Rc, sync::Arc};

/// A queue whose work runs in order. Cloning clones the handle.
#[derive(Clone)]
pub struct Stream(Rc<Inner>);

struct Inner {
    hal: Arc<dyn hal::Stream>,
    name: String,
    device: DeviceKey,
    // Whether this is the device's own compute stream.
    main: bool,
    held: Held,
}

/// A point in a stream.
#[derive(Clone, Debug)]
pub struct Event {
    hal: Arc<dyn hal::Event>,
    device: DeviceKey,
}

impl Event {
    /// Whether the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if any.
    pub fn is_complete(&self) -> Result<bool> {
        self.hal.is_complete()
    }

    /// Waits, on the host, until the stream has passed the point.
    ///
    /// # Errors
    /// The failure of the stream, if any.
    pub fn synchronize(&self) -> Result<()> {
        self.hal.synchronize()
    }

    /// When the stream passed the point, in microseconds since the device was opened; `None` while it has not.
    ///
    /// # Errors
    /// [`Error::Vendor`](hal::Error::Vendor) when the device does not answer.
    pub fn time_us(&self) -> Result<Option<f64>> {
        self.hal.time_us()
    }
}

impl Stream {
    pub(crate) fn new(hal: Arc<dyn hal::Stream>, name: &str, device: DeviceKey) -> Stream {
        let (name, main) = (name.into(), false);
        Stream(Rc::new(Inner {
            hal,
            name,
            device,
            main,
            held: Held::default(),
        }))
    }

    /// The stream that runs a device's GEMMs and kernels, and in whose order its memory is reused.
    pub(crate) fn main(hal: Arc<dyn hal::Stream>, device: DeviceKey) -> Stream {
        let (name, main) = ("compute".into(), true);
        Stream(Rc::new(Inner {
            hal,
            name,
            device,
            main,
            held: Held::default(),
        }))
    }

    /// Name in traces.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Marks the point that the queue has reached.
    ///
    /// # Errors
    /// The stream's earlier failure, if any.
    pub fn record(&self) -> Result<Event> {
        self.release()?;
        self.mark()
    }

    /// As [`record`](Stream::record), before the sum that the stream holds back.
    pub(crate) fn mark(&self) -> Result<Event> {
        Ok(Event {
            hal: self.0.hal.record()?,
            device: self.0.device,
        })
    }

    /// Makes work queued from now on wait for `event`.
    ///
    /// # Errors
    /// [`Error::Invalid`](hal::Error::Invalid) for an event of another device; the failure of the event's stream, if
    /// any.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.0.device.owns("wait", "an event", event.device)?;
        self.0.hal.wait(&*event.hal)
    }

    /// Waits, on the host, for everything queued so far.
    ///
    /// # Errors
    /// The first failure of queued work.
    pub fn synchronize(&self) -> Result<()> {
        self.hal()?.synchronize()
    }

    /// The vendor's stream, with everything queued.
    ///
    /// # Errors
    /// As [`release`](Stream::release).
    pub(crate) fn hal(&self) -> Result<&dyn hal::Stream> {
        self.release()?;
        Ok(&*self.0.hal)
    }

    pub(crate) fn held(&self) -> &Held {
        &self.0.held
    }

    pub(crate) fn is(&self, other: &Stream) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn is_main(&self) -> bool {
        self.0.main
    }

    pub(crate) fn device(&self) -> DeviceKey {
        self.0.device
    }

    /// Queues `work` that uses these tensors, after all work of other streams on which it depends.
    ///
    /// On streams other than the device's own, an event is recorded after the work, so that later users of the
    /// tensors wait for exactly this work. On the device's own stream, recording waits until somebody needs it.
    pub(crate) fn queue(
        &self,
        name: &'static str,
        arguments: &Arguments<'_>,
        work: impl FnOnce(&dyn hal::Stream) -> Result<()>,
    ) -> Result<()> {
        self.ordered(name, arguments, || {
            let queue = self.hal()?;
            let bytes = || arguments.written_bytes();
            trace::span(arguments.device(), self, (name, bytes), || work(queue))
        })
    }

    /// As [`queue`](Stream::queue), for a kernel; a sum may wait for the norm that reads it.
    ///
    /// # Safety
    /// The kernel's operands are those of `arguments`, as its vendor expects them.
    pub(crate) unsafe fn launch(
        &self,
        device: &Device,
        arguments: &Arguments<'_>,
        kernel: &Kernel,
    ) -> Result<()> {
        self.ordered(kernel.name(), arguments, || {
            let joined = self.0.held.joined(kernel);
            if joined.is_none() {
                self.release()?;
            }
            if self.0.main && self.0.held.hold(kernel, device, arguments) {
                return Ok(());
            }
            // SAFETY: the caller's guarantee; a sum that was held was one of such kernels, and its memory is still its own.
            unsafe { self.run(device, joined.as_ref().unwrap_or(kernel)) }
        })
    }

    /// Queues a kernel at once.
    ///
    /// # Safety
    /// Its operands are live memory of this device until the stream has passed it, ordered after the work of other streams.
    pub(crate) unsafe fn run(&self, device: &Device, kernel: &Kernel) -> Result<()> {
        let bytes = || {
            let mut written = 0;
            kernel.operands(&mut |operand| {
                written += match operand.access.writes() {
                    true => operand.slice.bytes(),
                    false => 0,
                };
            });
            written
        };
        trace::span(Some(device), self, (kernel.name(), bytes), || {
            // SAFETY: the caller's guarantee.
            unsafe { device.0.kernels.launch(&*self.0.hal, kernel) }
        })
    }

    // Runs `queue` after all work of other streams on which these tensors depend, and notes their use.
    fn ordered(
        &self,
        name: &'static str,
        arguments: &Arguments<'_>,
        queue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        for (tensor, _) in arguments.uses() {
            let key = tensor.device().key();
            self.0.device.owns(name, "a tensor", key)?;
        }
        let device = arguments.device();
        if let Some(device) = device
            && let Some(notes) = &*device.0.recorded.borrow()
        {
            notes.use_of(name, device, self, arguments)?;
        }
        for (tensor, access) in arguments.uses() {
            tensor.storage().order_after(self, access.writes())?;
        }
        let outcome = queue();
        self.note(arguments, outcome)
    }

    // Failed work may have been queued in part, so it counts as a use, but it replaces no earlier use.
    fn note(&self, arguments: &Arguments<'_>, outcome: Result<()>) -> Result<()> {
        let event = match self.0.main {
            true => Ok(None),
            false => self.record().map(Some),
        };
        let end = event.as_ref().map_or(None, Option::as_ref);
        let succeeded = outcome.is_ok() && event.is_ok();
        for (tensor, access) in arguments.uses() {
            tensor
                .storage()
                .note_use(self, end, access.writes(), succeeded);
        }
        outcome.and(event.map(drop))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.0.name, self.0.hal.device_id())
    }
}
