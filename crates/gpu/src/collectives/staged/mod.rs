//! Collectives between ranks of this process by device copies and kernels.
//!
//! The host brings the ranks together and the streams do the work: each rank tells the others its call and an event
//! behind which its buffers are ready ([`mod@group`], [`meeting`]), reads what it needs of theirs ([`reads`]), and goes on once all have
//! read. So a call takes two meetings of the host; on a communication stream that is the stream's own thread, and the
//! caller goes on. Sums go through the ranks in order, in the accumulator of the type. What no kernel reduces (largest,
//! smallest, integers) is reduced by the host ([`on_host`]): these are small.

mod group;
mod meeting;
mod on_host;
mod readings;
mod reads;
mod run;

use crate::{context::Context, kernels::Module, stream::GpuStream};
use group::Group;
use hal::lock;
use hal::{Collective, Communicator, Error, Join, Result, Stream};
use meeting::{Key, Post};
use run::Run;
use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// An id that no other group of this process has.
pub(super) fn create_id() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    [
        number.to_le_bytes(),
        u64::from(std::process::id()).to_le_bytes(),
    ]
    .concat()
}

// Groups that some rank is in. The last one to leave takes the group with it.
static GROUPS: Mutex<Vec<(Vec<u8>, Weak<Group>)>> = Mutex::new(Vec::new());

fn group(id: &[u8], join: &Join) -> Result<Arc<Group>> {
    let mut groups = lock(&GROUPS);
    groups.retain(|(_, group)| group.strong_count() > 0);
    if let Some(group) = groups
        .iter()
        .find(|(name, _)| name == id)
        .and_then(|(_, group)| group.upgrade())
    {
        return Ok(group);
    }
    let here = u64::from(std::process::id()).to_le_bytes();
    if !id.ends_with(&here) {
        let needed = "one of this process: staged collectives do not leave it";
        return Err(Error::invalid(
            format!("join {}", join.label),
            "a group of another process",
            needed,
        ));
    }
    let group = Arc::new(Group::new(join));
    groups.push((id.to_vec(), Arc::downgrade(&group)));
    Ok(group)
}

/// One rank in its group; calls that are queued keep it.
#[derive(Debug)]
struct Member {
    group: Arc<Group>,
    join: Join,
    context: Arc<Context>,
    module: Arc<Module>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.group.leave(self.join.rank);
    }
}

/// Joins a group.
///
/// # Errors
/// [`Error::Timeout`] naming the ranks that did not come; [`Error::Aborted`].
pub(super) fn join(
    context: &Arc<Context>,
    module: &Arc<Module>,
    id: &[u8],
    join: Join,
) -> Result<Box<dyn Communicator>> {
    let group = group(id, &join)?;
    let member = Arc::new(Member {
        group,
        join,
        context: context.clone(),
        module: module.clone(),
    });
    member
        .group
        .post(Key::Join, member.join.rank, Post::presence());
    member.group.collect(Key::Join, &member.join, "join")?;
    Ok(Box::new(StagedCommunicator {
        member,
        counters: RefCell::default(),
    }))
}

/// One rank's end of a group of this process.
struct StagedCommunicator {
    member: Arc<Member>,
    counters: RefCell<Counters>,
}

/// Numbers of the calls so far: calls find each other by them.
#[derive(Debug, Default)]
struct Counters {
    collectives: u64,
    messages: HashMap<(usize, usize), u64>,
}

impl Counters {
    fn next(&mut self, collective: &Collective, rank: usize) -> Key {
        let (from, to) = match collective {
            Collective::Send { to, .. } => (rank, *to),
            Collective::Recv { from, .. } => (*from, rank),
            _ => {
                self.collectives += 1;
                return Key::Collective {
                    sequence: self.collectives - 1,
                };
            }
        };
        let count = self.messages.entry((from, to)).or_default();
        *count += 1;
        Key::Message {
            from,
            to,
            sequence: *count - 1,
        }
    }
}

// SAFETY: rank and size are those of the group; a call touches the buffers of the ranks that have posted them, and ends
// on each rank's stream only after all have read.
unsafe impl Communicator for StagedCommunicator {
    fn rank(&self) -> usize {
        self.member.join.rank
    }

    fn size(&self) -> usize {
        self.member.join.members.len()
    }

    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()> {
        let stream = GpuStream::of(stream, self.member.context.id)?;
        let mut counters = self.counters.borrow_mut();
        let numbered = collectives
            .iter()
            .map(|call| (counters.next(call, self.rank()), call.clone()));
        let run = Run::new(self.member.clone(), numbered.collect());
        stream.submit_or_refuse(move |core, state| match state {
            // SAFETY: the caller vouches for the buffers until the work has run.
            Ok(()) => unsafe { run.execute(core) },
            Err(error) => Err(run.refuse(error)),
        })
    }
}

impl fmt::Debug for StagedCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Join {
            label,
            rank,
            members,
            ..
        } = &self.member.join;
        write!(
            f,
            "StagedCommunicator({label}, {rank} of {})",
            members.len()
        )
    }
}
