//! A world and a device that write what they return to a tape.

#![allow(unsafe_code, reason = "groups that pass on the calls of their callers")]

use crate::{
    TapeWriter,
    call::{Call, exchange_name, group_name, hash, operands, packed},
    device::{Groups, Wrapped},
};
use bootstrap::{World, world::Rendezvous};
use hal::{
    Collective, Communicator, Device, Error, Event, Exchange, GroupId, Join, RawBuffer, RawSlice,
    Result, Stream, StreamKind,
};
use std::{cell::RefCell, collections::VecDeque, fmt, sync::Arc};

/// The same world and device, which record what they return.
///
/// # Errors
/// [`Error::Vendor`] if the device cannot make a stream; [`Error::Invalid`] if the tape cannot be written.
pub fn record(
    world: &World,
    device: Arc<dyn Device>,
    tape: &Arc<TapeWriter>,
) -> Result<(World, Arc<dyn Device>)> {
    let everyone = Recorded::wrap(world.everyone(), "everyone", tape)?;
    let rendezvous = Meetings {
        world: world.clone(),
        tape: tape.clone(),
    };
    let groups = Recorder {
        groups: tape.open("groups").map_err(broken)?,
        stream: device.create_stream(StreamKind::Communication)?,
        tape: tape.clone(),
    };
    let world = world.with_exchanges(Box::new(rendezvous), everyone);
    Ok((world, Wrapped::open(device, groups)))
}

/// A tape that cannot be written ends the run: a recording with a gap is none.
fn broken(error: crate::Error) -> Error {
    Error::invalid("recording", error.to_string(), "a file that can be written")
}

struct Meetings {
    world: World,
    tape: Arc<TapeWriter>,
}

impl Rendezvous for Meetings {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let name = exchange_name(label, members);
        Recorded::wrap(self.world.exchange(label, members)?, &name, &self.tape)
    }
}

/// An exchange whose results are recorded.
#[derive(Debug)]
struct Recorded {
    exchange: Arc<dyn Exchange>,
    tape: Arc<TapeWriter>,
    channel: u32,
}

impl Recorded {
    fn wrap(
        exchange: Arc<dyn Exchange>,
        name: &str,
        tape: &Arc<TapeWriter>,
    ) -> Result<Arc<dyn Exchange>> {
        Ok(Arc::new(Recorded {
            exchange,
            channel: tape.open(name).map_err(broken)?,
            tape: tape.clone(),
        }))
    }

    fn keep(&self, received: &[Vec<u8>]) -> Result<()> {
        let frame = packed(received);
        self.tape.write(self.channel, &[&frame]).map_err(broken)
    }
}

impl Exchange for Recorded {
    fn rank(&self) -> usize {
        self.exchange.rank()
    }

    fn size(&self) -> usize {
        self.exchange.size()
    }

    fn stands_for(&self, rank: usize) -> bool {
        self.exchange.stands_for(rank)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let received = self.exchange.all_gather(bytes)?;
        self.keep(&received)?;
        Ok(received)
    }

    fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let received = self.exchange.broadcast(root, bytes)?;
        self.keep(std::slice::from_ref(&received))?;
        Ok(received)
    }
}

/// Makes groups that are recorded.
#[derive(Debug)]
struct Recorder {
    tape: Arc<TapeWriter>,
    groups: u32,
    // On which nothing ever waits, so that a copy to the host does not either.
    stream: Arc<dyn Stream>,
}

impl Groups for Recorder {
    fn create(&self, device: &dyn Device) -> Result<GroupId> {
        let id = device.create_group()?;
        self.tape.write(self.groups, &[&id.0]).map_err(broken)?;
        Ok(id)
    }

    fn join(&self, device: &Arc<dyn Device>, join: Join) -> Result<Box<dyn Communicator>> {
        Ok(Box::new(RecordedGroup {
            channel: self.tape.open(&group_name(&join)).map_err(broken)?,
            group: device.join(join)?,
            device: device.clone(),
            stream: self.stream.clone(),
            tape: self.tape.clone(),
            pending: RefCell::default(),
        }))
    }
}

/// A group whose results are recorded.
struct RecordedGroup {
    group: Box<dyn Communicator>,
    device: Arc<dyn Device>,
    stream: Arc<dyn Stream>,
    tape: Arc<TapeWriter>,
    channel: u32,
    // In the order of calls.
    pending: RefCell<VecDeque<Pending>>,
}

/// A call whose copies may still be on their way.
struct Pending {
    call: Call,
    sent: Vec<RawBuffer>,
    received: Vec<RawBuffer>,
    copied: Arc<dyn Event>,
}

// SAFETY: `rank` and `size` are those of the group. Its calls get the caller's arguments; beside them, copies are queued on the
// caller's stream, from the operands, which the caller keeps alive until that place of the stream, to memory of this object.
unsafe impl Communicator for RecordedGroup {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let operands = operands(collectives);
        let of = |is_one: fn(&hal::Access) -> bool| {
            let some = operands
                .iter()
                .filter(move |operand| is_one(&operand.access));
            some.map(|operand| operand.slice).collect::<Vec<_>>()
        };
        let sent = self.copies(stream, &of(|access| access.reads()))?;
        // SAFETY: the caller guarantees the same.
        unsafe { self.group.run(stream, collectives)? };
        let received = self.copies(stream, &of(|access| access.writes()))?;
        self.pending.borrow_mut().push_back(Pending {
            call: Call::of(collectives, 0),
            sent,
            received,
            copied: stream.record()?,
        });
        self.keep_complete()
    }

    fn connect(&self) -> Result<()> {
        self.group.connect()
    }
}

impl RecordedGroup {
    // Queues copies of what these slices hold at this place of the stream.
    fn copies(&self, stream: &dyn Stream, slices: &[RawSlice]) -> Result<Vec<RawBuffer>> {
        let copy = |slice: &RawSlice| {
            let copy = self.device.allocate(slice.bytes())?;
            // SAFETY: the slice is live until here in the stream, as the caller of `run` guarantees; the copy, which is as long
            // and lies in memory of its own, until its event has passed.
            unsafe { stream.copy(copy, slice.buffer())? };
            Ok(copy)
        };
        slices.iter().map(copy).collect()
    }

    // Writes the calls whose copies have arrived, up to the first that has not.
    fn keep_complete(&self) -> Result<()> {
        let mut pending = self.pending.borrow_mut();
        while let Some(first) = pending.front() {
            if !first.copied.is_complete()? {
                break;
            }
            let first = pending.pop_front().expect("looked at above");
            self.keep(first)?;
        }
        Ok(())
    }

    fn keep(&self, pending: Pending) -> Result<()> {
        let on_host = |buffers: &[RawBuffer]| -> Result<Vec<Vec<u8>>> {
            let download = |buffer: &RawBuffer| {
                let mut bytes = vec![0; buffer.bytes];
                // SAFETY: the buffer is live, as long as `bytes`, and what was copied to it has arrived.
                unsafe { self.stream.download(&mut bytes, *buffer)? };
                Ok(bytes)
            };
            buffers.iter().map(download).collect()
        };
        let (sent, received) = (on_host(&pending.sent)?, on_host(&pending.received)?);
        for buffer in pending.sent.iter().chain(&pending.received) {
            // SAFETY: from this device, once; the copies to and from it are over.
            unsafe { self.device.deallocate(*buffer) };
        }
        let call = Call {
            sent: hash(sent.iter().map(Vec::as_slice)),
            ..pending.call
        };
        let call = serde_json::to_vec(&call).expect("a bug: a call is plain values");
        let frame = packed(&[vec![call], received].concat());
        self.tape.write(self.channel, &[&frame]).map_err(broken)
    }
}

impl Drop for RecordedGroup {
    fn drop(&mut self) {
        for pending in self.pending.take() {
            // After a failure the copies may never arrive; their memory stays with the device.
            if pending.copied.synchronize().is_err() || self.keep(pending).is_err() {
                break;
            }
        }
    }
}

impl fmt::Debug for RecordedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, recorded", self.group)
    }
}
