//! Collectives and messages as values: their arguments, whether they fit a group, and whether two of them
//! agree.

use crate::{
    Error, Operand, RawSlice, Result,
    operand::{READ, UPDATE, WRITE},
};

/// How elements of several ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their sum divided by the number of ranks; of floats alone. Vendors may multiply by the reciprocal, which rounds otherwise unless
    /// the number of ranks is a power of two.
    Avg,
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
            ReduceOp::Avg => "avg",
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
    /// One number per rank, in the order of ranks; zero is allowed.
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

    /// As [`total`](Counts::total); `None` if the number of counts is not the number of ranks, or the sum
    /// overflows.
    pub fn checked_total(&self, size: usize) -> Option<usize> {
        match self {
            Counts::Even(count) => count.checked_mul(size),
            Counts::Uneven(counts) => counts
                .iter()
                .try_fold(0usize, |sum, &count| sum.checked_add(count))
                .filter(|_| counts.len() == size),
        }
    }
}

/// One collective or message. Several in one call to [`Communicator::run`](crate::Communicator::run) form a
/// group that progresses together.
#[derive(Clone, Debug, PartialEq)]
pub enum Collective {
    /// Every rank receives the reduction of all buffers, in place.
    AllReduce {
        /// This rank's addend, overwritten by the result.
        buffer: RawSlice,
        /// How to reduce.
        op: ReduceOp,
    },
    /// Rank i receives the reduction of the i-th part of all `send` buffers.
    ReduceScatter {
        /// This rank's addend to every part, `counts.total` elements.
        send: RawSlice,
        /// This rank's part of the result; may be its part of `send`.
        recv: RawSlice,
        /// Sizes of the parts.
        counts: Counts,
        /// How to reduce.
        op: ReduceOp,
    },
    /// Every rank receives the concatenation of all `send` buffers.
    AllGather {
        /// This rank's part; may be its part of `recv`.
        send: RawSlice,
        /// The parts of all ranks, `counts.total` elements.
        recv: RawSlice,
        /// Sizes of the parts.
        counts: Counts,
    },
    /// Every rank receives the buffer of `root`, in place.
    Broadcast {
        /// What `root` sends and the others receive.
        buffer: RawSlice,
        /// The sending rank within the group.
        root: usize,
    },
    /// Part j of rank i's `send` becomes part i of rank j's `recv`; all parts have equal size.
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
        /// The receiving rank within the group.
        to: usize,
    },
    /// A message from one rank.
    Recv {
        /// The buffer that receives the message.
        buffer: RawSlice,
        /// The sending rank within the group.
        from: usize,
    },
    /// Completes, on the stream, once every rank has arrived.
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

    /// Visits the operands of this rank's side, sources first.
    pub fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        match self {
            Collective::AllReduce { buffer, .. } | Collective::Broadcast { buffer, .. } => {
                visit(UPDATE.of(*buffer));
            }
            Collective::ReduceScatter { send, recv, .. }
            | Collective::AllGather { send, recv, .. }
            | Collective::AllToAll { send, recv } => {
                visit(READ.of(*send));
                visit(WRITE.of(*recv));
            }
            Collective::Send { buffer, .. } => visit(READ.of(*buffer)),
            Collective::Recv { buffer, .. } => visit(WRITE.of(*buffer)),
            Collective::Barrier => {}
        }
    }

    /// The larger of this rank's buffers; `None` for a barrier.
    pub fn buffer(&self) -> Option<RawSlice> {
        match self {
            Collective::AllReduce { buffer, .. }
            | Collective::Broadcast { buffer, .. }
            | Collective::Send { buffer, .. }
            | Collective::Recv { buffer, .. } => Some(*buffer),
            Collective::ReduceScatter { send, .. } | Collective::AllToAll { send, .. } => {
                Some(*send)
            }
            Collective::AllGather { recv, .. } => Some(*recv),
            Collective::Barrier => None,
        }
    }

    /// Checks that the ranks and counts named in the call fit a group of `size`.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the argument that does not fit.
    pub fn check(&self, size: usize) -> Result<()> {
        let (found, fits) = match self {
            Collective::ReduceScatter {
                counts: Counts::Uneven(counts),
                ..
            }
            | Collective::AllGather {
                counts: Counts::Uneven(counts),
                ..
            } => (format!("{} counts", counts.len()), counts.len() == size),
            Collective::Broadcast { root: rank, .. }
            | Collective::Send { to: rank, .. }
            | Collective::Recv { from: rank, .. } => (format!("rank {rank}"), *rank < size),
            _ => return Ok(()),
        };
        if fits {
            Ok(())
        } else {
            Err(Error::invalid(
                self.name(),
                found,
                format!("to fit a group of {size}"),
            ))
        }
    }

    /// Whether another member's call is the same in a group of `size`, ignoring addresses; a receive agrees
    /// with the matching send.
    ///
    /// Where ranks access each other's memory, this check makes the lengths known to one rank valid for all.
    pub fn agrees(&self, other: &Collective, size: usize) -> bool {
        use Collective::*;
        let alike = |a: &RawSlice, b: &RawSlice| a.len == b.len && a.dtype == b.dtype;
        let even = |a: &Counts, b: &Counts| (0..size).all(|rank| a.of(rank) == b.of(rank));
        match (self, other) {
            (
                AllReduce { buffer: a, op },
                AllReduce {
                    buffer: b,
                    op: other,
                },
            ) => op == other && alike(a, b),
            (
                ReduceScatter {
                    send: a,
                    counts,
                    op,
                    ..
                },
                ReduceScatter {
                    send: b,
                    counts: others,
                    op: other,
                    ..
                },
            ) => op == other && alike(a, b) && even(counts, others),
            (
                AllGather {
                    recv: a, counts, ..
                },
                AllGather {
                    recv: b,
                    counts: others,
                    ..
                },
            ) => alike(a, b) && even(counts, others),
            (
                Broadcast { buffer: a, root },
                Broadcast {
                    buffer: b,
                    root: other,
                },
            ) => root == other && alike(a, b),
            (AllToAll { send: a, .. }, AllToAll { send: b, .. }) => alike(a, b),
            (Send { buffer: a, .. }, Recv { buffer: b, .. })
            | (Recv { buffer: a, .. }, Send { buffer: b, .. }) => alike(a, b),
            (Barrier, Barrier) => true,
            _ => false,
        }
    }

    /// A description of the call, equal on all ranks of a group that agree: operation, elements, type,
    /// reduction, root.
    pub fn describe(&self) -> String {
        let Some(buffer) = self.buffer() else {
            return self.name().into();
        };
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

    /// The same with the sizes of parts that differ, which [`describe`](Collective::describe) omits. Calls between the same
    /// ranks have the same text if they agree.
    pub fn describe_with_parts(&self) -> String {
        let text = self.describe();
        match self {
            Collective::ReduceScatter {
                counts: Counts::Uneven(counts),
                ..
            }
            | Collective::AllGather {
                counts: Counts::Uneven(counts),
                ..
            } if counts.iter().any(|count| *count != counts[0]) => {
                format!("{text} in parts of {counts:?}")
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn slice(len: usize, dtype: DType) -> RawSlice {
        RawSlice {
            addr: 64,
            len,
            dtype,
        }
    }

    #[test]
    fn calls_agree_by_what_they_do() {
        let reduce = |len, dtype, op| Collective::AllReduce {
            buffer: slice(len, dtype),
            op,
        };
        let one = reduce(4, DType::F32, ReduceOp::Sum);
        assert!(one.agrees(&one, 2));
        for other in [
            reduce(5, DType::F32, ReduceOp::Sum),
            reduce(4, DType::U32, ReduceOp::Sum),
            reduce(4, DType::F32, ReduceOp::Max),
            Collective::Barrier,
        ] {
            assert!(!one.agrees(&other, 2), "{}", other.describe_with_parts());
        }
    }

    #[test]
    fn even_and_uneven_counts_may_mean_the_same() {
        let gather = |counts| Collective::AllGather {
            send: slice(2, DType::F32),
            recv: slice(4, DType::F32),
            counts,
        };
        let even = gather(Counts::Even(2));
        let same = gather(Counts::Uneven(vec![2, 2]));
        assert!(even.agrees(&same, 2));
        assert_eq!(even.describe_with_parts(), same.describe_with_parts());
        let uneven = gather(Counts::Uneven(vec![1, 3]));
        assert!(!even.agrees(&uneven, 2));
        assert_eq!(
            uneven.describe_with_parts(),
            "all_gather(4 x f32) in parts of [1, 3]"
        );
    }
}
