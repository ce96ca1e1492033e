//! Streams whose work takes virtual time only.

use crate::{
    event::SimEvent,
    state::{Cost, Shared, Side},
    work::{Category, Label},
};
use hal::{DeviceId, Error, Event, RawBuffer, Result, Stream, StreamKind};
use std::{any::Any, sync::Arc};

/// A stream of this vendor: the device holds its clock.
#[derive(Debug)]
pub(crate) struct SimStream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    pub(crate) kind: StreamKind,
    pub(crate) side: Side,
}

impl SimStream {
    /// The number of a stream of this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] if another device made it.
    pub(crate) fn index(stream: &dyn Stream, device: &Arc<Shared>) -> Result<usize> {
        let own = stream.as_any().downcast_ref::<SimStream>();
        own.filter(|stream| Arc::ptr_eq(&stream.shared, device))
            .map(|stream| stream.index)
            .ok_or_else(|| {
                let needed = format!("one of {}", device.id);
                Error::invalid("stream", "one of another device", needed)
            })
    }
}

fn copying(name: &'static str, bytes: usize) -> Label {
    Label {
        name,
        category: Category::Elementwise,
        group: None,
        bytes,
        flop: 0.0,
    }
}

// SAFETY: a stream's clock never goes back, and an event takes the clock's value. So work is in order, and an
// event is behind all work before it. The id is the device's own.
unsafe impl Stream for SimStream {
    fn device_id(&self) -> DeviceId {
        self.shared.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn kind(&self) -> StreamKind {
        self.kind
    }

    unsafe fn copy(&self, dst: RawBuffer, src: RawBuffer) -> Result<()> {
        let mut state = self.shared.lock();
        state
            .memory_of(self.side)
            .check_range("copy", dst.addr, dst.bytes)?;
        state
            .memory_of(self.side)
            .check_range("copy", src.addr, src.bytes)?;
        state.run(
            self.index,
            copying("copy", dst.bytes),
            match self.side {
                Side::Device => Cost::Compute(self.shared.costs.copy(dst.bytes)),
                Side::Host => Cost::Copy(self.shared.costs.host_copy(dst.bytes)),
            },
        )
    }

    unsafe fn upload(&self, dst: RawBuffer, src: &[u8]) -> Result<()> {
        let mut state = self.shared.lock();
        state
            .memory_of(self.side)
            .check_range("upload", dst.addr, src.len())?;
        state.run(
            self.index,
            copying("upload", src.len()),
            Cost::Copy(self.shared.costs.transfer(self.kind, src.len())),
        )
    }

    unsafe fn download(&self, dst: &mut [u8], src: RawBuffer) -> Result<()> {
        let mut state = self.shared.lock();
        state
            .memory_of(self.side)
            .check_range("download", src.addr, dst.len())?;
        state.run(
            self.index,
            copying("download", dst.len()),
            Cost::Copy(self.shared.costs.transfer(self.kind, dst.len())),
        )?;
        let at = state.lane_time(self.index)?;
        state.host_reaches(at);
        Err(Error::NoValues {
            device: self.shared.id,
        })
    }

    fn record(&self) -> Result<Arc<dyn Event>> {
        let index = self.shared.lock().record(self.index)?;
        Ok(Arc::new(SimEvent {
            shared: self.shared.clone(),
            index,
        }))
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        let event = SimEvent::index(event, &self.shared)?;
        self.shared.lock().wait(self.index, event)
    }

    fn synchronize(&self) -> Result<()> {
        let mut state = self.shared.lock();
        let at = state.lane_time(self.index)?;
        state.host_reaches(at);
        Ok(())
    }
}
