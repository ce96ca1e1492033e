//! A world and a device that return what a tape holds.

#![allow(unsafe_code, reason = "groups that pass on the calls of their callers")]

use crate::{
    Tape,
    call::{Call, exchange_name, group_name, hash, operands, unpacked},
    device::{Groups, Wrapped},
};
use bootstrap::{
    World,
    world::{Launcher, RankLocation, Rendezvous, WorldParts},
};
use hal::{
    AbortSignal, Collective, Communicator, Device, Error, Exchange, GroupId, Join, Result, Stream,
};
use std::{cell::Cell, sync::Arc, time::Duration};

/// The world of the recorded rank, which was at `place`, and this device, on which it runs alone.
///
/// # Errors
/// [`Error::Invalid`] if the tape is not one of a rank.
pub fn replay(
    place: RankLocation,
    device: Arc<dyn Device>,
    tape: &Arc<Tape>,
) -> Result<(World, Arc<dyn Device>)> {
    let everyone = Alone {
        tape: tape.clone(),
        channel: tape.channel("everyone").map_err(apart)?,
        rank: place.rank,
        size: place.size,
    };
    let groups = Replayer {
        groups: tape.channel("groups").map_err(apart)?,
        tape: tape.clone(),
    };
    let world = World::new(WorldParts {
        place,
        launcher: Launcher::Recording,
        timeout: Duration::from_secs(60),
        abort: Arc::new(AbortSignal::default()),
        progress: Arc::new(bootstrap::progress::Progress::new(vec![place.rank])),
        rendezvous: Box::new(Meetings {
            tape: tape.clone(),
            rank: place.rank,
        }),
        everyone: Arc::new(everyone),
    });
    Ok((world, Wrapped::open(device, groups)))
}

fn apart(error: crate::Error) -> Error {
    Error::invalid(
        "replay",
        error.to_string(),
        "the calls of the recorded rank",
    )
}

struct Meetings {
    tape: Arc<Tape>,
    rank: usize,
}

impl Rendezvous for Meetings {
    fn exchange(&self, label: &str, members: &[usize]) -> Result<Arc<dyn Exchange>> {
        let name = exchange_name(label, members);
        let rank = members.iter().position(|member| *member == self.rank);
        Ok(Arc::new(Alone {
            tape: self.tape.clone(),
            channel: self.tape.channel(&name).map_err(apart)?,
            rank: rank.unwrap_or_default(),
            size: members.len(),
        }))
    }
}

/// An exchange of one rank, whose others are on the tape.
///
/// What this rank passes is not compared: it may hold times, which no run repeats.
#[derive(Debug)]
struct Alone {
    tape: Arc<Tape>,
    channel: u32,
    rank: usize,
    size: usize,
}

impl Alone {
    fn received(&self) -> Result<Vec<Vec<u8>>> {
        let frame = self.tape.next(self.channel).map_err(apart)?;
        unpacked(&frame).ok_or_else(|| damaged(&self.tape))
    }
}

fn damaged(tape: &Tape) -> Error {
    apart(tape.fail("a frame that is damaged".into()))
}

impl Exchange for Alone {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, _bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let received = self.received()?;
        match received.len() == self.size {
            true => Ok(received),
            false => Err(damaged(&self.tape)),
        }
    }

    fn broadcast(&self, _root: usize, _bytes: &[u8]) -> Result<Vec<u8>> {
        self.received()?.pop().ok_or_else(|| damaged(&self.tape))
    }
}

/// Makes groups that are on the tape.
#[derive(Debug)]
struct Replayer {
    tape: Arc<Tape>,
    groups: u32,
}

impl Groups for Replayer {
    fn create(&self, _device: &dyn Device) -> Result<GroupId> {
        Ok(GroupId(self.tape.next(self.groups).map_err(apart)?))
    }

    fn join(&self, _device: &Arc<dyn Device>, join: Join) -> Result<Box<dyn Communicator>> {
        let name = group_name(&join);
        Ok(Box::new(ReplayedGroup {
            channel: self.tape.channel(&name).map_err(apart)?,
            tape: self.tape.clone(),
            name,
            rank: join.rank,
            size: join.members.len(),
            calls: Cell::new(0),
        }))
    }
}

/// A group of one rank, whose others are on the tape.
#[derive(Debug)]
struct ReplayedGroup {
    tape: Arc<Tape>,
    channel: u32,
    name: String,
    rank: usize,
    size: usize,
    calls: Cell<usize>,
}

// SAFETY: `rank` and `size` are those of the join. Work is queued on the caller's stream alone, and uses the operands that the
// caller keeps alive until that place of the stream.
unsafe impl Communicator for ReplayedGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        self.calls.set(self.calls.get() + 1);
        let apart_here = |found: String, needed: String| {
            let call = format!("replay, call {} of {}", self.calls.get(), self.name);
            Err(Error::invalid(call, found, needed))
        };
        let frame = self.tape.next(self.channel).map_err(apart)?;
        let mut parts = unpacked(&frame)
            .ok_or_else(|| damaged(&self.tape))?
            .into_iter();
        let recorded = parts
            .next()
            .and_then(|call| serde_json::from_slice(&call).ok());
        let recorded: Call = recorded.ok_or_else(|| damaged(&self.tape))?;
        let operands = operands(collectives);
        let sent = operands.iter().filter(|operand| operand.access.reads());
        let sent = sent.map(|operand| {
            let mut bytes = vec![0; operand.slice.bytes()];
            // SAFETY: the caller keeps the operand alive until here in the stream.
            unsafe { stream.download(&mut bytes, operand.slice.buffer())? };
            Ok(bytes)
        });
        let sent: Vec<Vec<u8>> = sent.collect::<Result<_>>()?;
        let own = Call::of(collectives, hash(sent.iter().map(Vec::as_slice)));
        if own.operations != recorded.operations {
            let [found, needed] = [&own, &recorded].map(|call| format!("{:?}", call.operations));
            return apart_here(found, format!("{needed}, as recorded"));
        }
        if own.sent != recorded.sent {
            let what = own.operations.first().map_or("", |(name, _)| name.as_str());
            let found = format!("another value sent by {what}");
            return apart_here(found, "the bits that the recorded rank sent".into());
        }
        for operand in operands.iter().filter(|operand| operand.access.writes()) {
            let bytes = parts.next().ok_or_else(|| damaged(&self.tape))?;
            if bytes.len() != operand.slice.bytes() {
                return Err(damaged(&self.tape));
            }
            // SAFETY: the caller keeps the operand alive until here in the stream; it has as many bytes.
            unsafe { stream.upload(operand.slice.buffer(), &bytes)? };
        }
        Ok(())
    }
}
