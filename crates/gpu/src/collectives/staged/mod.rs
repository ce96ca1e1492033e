//! Collectives between ranks of this process by device copies and kernels.
//!
//! The host brings the ranks together, and the streams do the work. Each rank posts its call and an event behind which
//! its buffers are ready ([`mod@group`], [`meeting`]). It then reads what it needs of the others' buffers ([`reads`]),
//! and continues once every rank has read. So each call takes two meetings on the host. On a communication stream the
//! stream's own thread attends them, and the caller continues at once. Sums add the ranks in order, in the accumulator
//! of the type. The host itself does the reductions that no kernel offers ([`on_host`]): maxima, minima and integers,
//! which are small.

mod group;
mod meeting;
mod on_host;
mod readings;
mod reads;
mod run;

use crate::{context::Context, kernels::Module, stream::GpuStream};
use group::Group;
use hal::{Collective, Communicator, Error, Join, Result, Stream, lock};
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

// Groups that have members. A group ends when its last member leaves.
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

/// One rank's membership of a group; queued calls keep it alive.
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
/// [`Error::Invalid`] for a group of another process; [`Error::Timeout`] naming the ranks that did not join;
/// [`Error::Aborted`].
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

/// Counts the calls made so far: ranks match calls by their numbers.
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

// SAFETY: rank and size are those of the group. A call accesses only posted buffers, and ends on each rank's stream
// only after every rank has read.
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
