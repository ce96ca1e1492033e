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
mod registry;
mod run;

use crate::{context::Context, kernels::Module, stream::GpuStream};
use group::Group;
use hal::{Collective, Communicator, Join, Result, Stream};
use meeting::{Key, Post};
pub(super) use registry::create_id;
use run::Run;
use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc};

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
/// [`Error::Invalid`](hal::Error::Invalid) for a group of another process; [`Error::Timeout`](hal::Error::Timeout)
/// naming the ranks that did not join; [`Error::Aborted`](hal::Error::Aborted).
pub(super) fn join(
    context: &Arc<Context>,
    module: &Arc<Module>,
    id: &[u8],
    join: Join,
) -> Result<Box<dyn Communicator>> {
    let group = registry::group(id, &join)?;
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
