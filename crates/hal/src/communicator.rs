//! Collectives and messages within a process group.

use crate::{AbortSignal, Error, RawSlice, Result, Stream};
use std::{fmt, sync::Arc, time::Duration};

/// How elements of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl ReduceOp {
    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
        }
    }
}

/// Number of elements that each rank of the group holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// The same number on every rank.
    Even(usize),
    /// One number a rank, in the order of ranks; zero is allowed.
    Uneven(Vec<usize>),
}

impl Counts {
    /// Elements of `rank`.
    pub fn of(&self, rank: usize) -> usize {
        match self {
            Counts::Even(count) => *count,
            Counts::Uneven(counts) => counts[rank],
        }
    }

    /// Elements of all ranks before `rank`.
    pub fn before(&self, rank: usize) -> usize {
        match self {
            Counts::Even(count) => count * rank,
            Counts::Uneven(counts) => counts[..rank].iter().sum(),
        }
    }

    /// Elements of all `size` ranks.
    pub fn total(&self, size: usize) -> usize {
        self.before(size)
    }
}

/// One collective or message. Within one call to [`Communicator::run`] several form a group that progresses together.
#[derive(Clone, Debug, PartialEq)]
pub enum Collective {
    /// Every rank gets the reduction of all buffers, in place.
    AllReduce {
        /// This rank's addend, and then the result.
        buffer: RawSlice,
        /// How to reduce.
        op: ReduceOp,
    },
    /// Rank i gets the reduction of the i-th part of all `send` buffers.
    ReduceScatter {
        /// This rank's addend to every part, `counts.total` elements.
        send: RawSlice,
        /// This rank's part of the result; may be that part of `send` itself.
        recv: RawSlice,
        /// Sizes of the parts.
        counts: Counts,
        /// How to reduce.
        op: ReduceOp,
    },
    /// Every rank gets the concatenation of all `send` buffers.
    AllGather {
        /// This rank's part; may be that part of `recv` itself.
        send: RawSlice,
        /// The parts of all ranks, `counts.total` elements.
        recv: RawSlice,
        /// Sizes of the parts.
        counts: Counts,
    },
    /// Every rank gets the buffer of `root`, in place.
    Broadcast {
        /// What `root` sends and the others receive.
        buffer: RawSlice,
        /// Rank within the group that sends.
        root: usize,
    },
    /// Part j of rank i's `send` becomes part i of rank j's `recv`; all parts are equal.
    AllToAll {
        /// One part for each rank.
        send: RawSlice,
        /// One part from each rank; does not overlap `send`.
        recv: RawSlice,
    },
    /// A message to one rank, which receives the same number of elements of the same type.
    Send {
        /// The message.
        buffer: RawSlice,
        /// Rank within the group that receives.
        to: usize,
    },
    /// A message from one rank.
    Recv {
        /// Where the message goes.
        buffer: RawSlice,
        /// Rank within the group that sends.
        from: usize,
    },
    /// Returns, on the stream, once every rank has come.
    Barrier,
}

impl Collective {
    /// Name of the operation.
    pub const fn name(&self) -> &'static str {
        match self {
            Collective::AllReduce { .. } => "all_reduce",
            Collective::ReduceScatter { .. } => "reduce_scatter",
            Collective::AllGather { .. } => "all_gather",
            Collective::Broadcast { .. } => "broadcast",
            Collective::AllToAll { .. } => "all_to_all",
            Collective::Send { .. } => "send",
            Collective::Recv { .. } => "recv",
            Collective::Barrier => "barrier",
        }
    }

    /// The larger of the buffers that this rank gives or gets; `None` for a barrier.
    pub fn buffer(&self) -> Option<RawSlice> {
        match self {
            Collective::AllReduce { buffer, .. }
            | Collective::Broadcast { buffer, .. }
            | Collective::Send { buffer, .. }
            | Collective::Recv { buffer, .. } => Some(*buffer),
            Collective::ReduceScatter { send, .. } | Collective::AllToAll { send, .. } => Some(*send),
            Collective::AllGather { recv, .. } => Some(*recv),
            Collective::Barrier => None,
        }
    }

    /// Whether the ranks and counts that the call names fit a group of `size`.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what does not fit.
    pub fn check(&self, size: usize) -> Result<()> {
        let (found, fits) = match self {
            Collective::ReduceScatter { counts: Counts::Uneven(counts), .. }
            | Collective::AllGather { counts: Counts::Uneven(counts), .. } => {
                (format!("{} counts", counts.len()), counts.len() == size)
            }
            Collective::Broadcast { root: rank, .. }
            | Collective::Send { to: rank, .. }
            | Collective::Recv { from: rank, .. } => (format!("rank {rank}"), *rank < size),
            _ => return Ok(()),
        };
        if fits {
            Ok(())
        } else {
            Err(Error::invalid(self.name(), found, format!("to fit a group of {size}")))
        }
    }

    /// The call in words, equal on all ranks of a group that agree: operation, elements, type, reduction, root.
    pub fn describe(&self) -> String {
        let Some(buffer) = self.buffer() else { return self.name().into() };
        let mut text = format!("{}({} x {}", self.name(), buffer.len, buffer.dtype);
        match self {
            Collective::AllReduce { op, .. } | Collective::ReduceScatter { op, .. } => {
                text += &format!(", {}", op.name());
            }
            Collective::Broadcast { root, .. } => text += &format!(", root {root}"),
            _ => {}
        }
        text + ")"
    }
}

/// The name of a process group, made by one rank and known to all its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub Vec<u8>);

/// What a rank brings to join a process group.
#[derive(Clone, Debug)]
pub struct Join {
    /// The group's id, from [`Device::create_group`](crate::Device::create_group) of its rank 0.
    pub id: GroupId,
    /// The group in words, for messages: `axis Y`.
    pub label: String,
    /// This rank's index within the group.
    pub rank: usize,
    /// World ranks of the members, in the order of their index.
    pub members: Vec<usize>,
    /// How long a rank waits for the others before it reports which did not come.
    pub timeout: Duration,
    /// Ends every wait early.
    pub abort: Arc<AbortSignal>,
}

/// One rank's end of a process group.
///
/// That all ranks make the same calls in the same order is no safety clause, because no caller can prove it. A vendor
/// whose ranks touch each other's memory compares the calls itself; for the others there is the shell's checked mode.
///
/// # Safety
/// `rank` and `size` are true; only memory named by the arguments of this group's calls is read or written, by this
/// rank's stream or by a peer, and never after the call's place in the stream has passed.
pub unsafe trait Communicator: Send + fmt::Debug {
    /// This rank's index within the group.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn size(&self) -> usize;

    /// Queues collectives that progress together: none of them waits for another of the same call.
    ///
    /// # Safety
    /// The buffers are live until the work has run, are on the stream's device, have the lengths that the operation
    /// asks for, and are not used by other work meanwhile.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Timeout`],
    /// [`Error::Aborted`]: here, or from the stream's events when it runs later.
    unsafe fn run(&self, stream: &dyn Stream, collectives: &[Collective]) -> Result<()>;
}
