//! Collectives between the ranks of a group, with every argument checked.

use crate::{Device, Parts, ReduceOp, Stream, Tensor, device::DeviceKey, overlap};
use hal::{Collective, Counts, Error, Exchange, Join, Result};
use std::{fmt, sync::Arc};

/// One rank's end of a process group.
///
/// Every operation is collective: all ranks of the group must make the same calls in the same order. It is queued on
/// the stream given; the host waits only where the stream is the host's own.
///
/// In checked mode the ranks compare their calls on the host before each one is queued, and a difference is
/// [`Error::Mismatch`] on every rank instead of a hang or spoilt numbers.
pub struct Communicator {
    hal: Box<dyn hal::Communicator>,
    device: DeviceKey,
    label: String,
    members: Vec<usize>,
    checked: Option<Arc<dyn Exchange>>,
    sequence: std::cell::Cell<u64>,
}

impl Communicator {
    /// Joins a group on `device`; `checked` is the group's host exchange, for checked mode.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank that is no member; [`Error::Timeout`] naming the ranks that did not come;
    /// [`Error::Aborted`].
    pub fn join(
        device: &Device,
        join: Join,
        checked: Option<Arc<dyn Exchange>>,
    ) -> Result<Communicator> {
        let (label, members) = (join.label.clone(), join.members.clone());
        if join.rank >= members.len() {
            let found = format!("rank {} of {} members", join.rank, members.len());
            let needed = "a rank below the number of members";
            return Err(Error::invalid(format!("join {label}"), found, needed));
        }
        let hal = device.hal().join(join)?;
        Ok(Communicator {
            hal,
            device: device.key(),
            label,
            members,
            checked,
            sequence: 0.into(),
        })
    }

    /// This rank's index within the group.
    pub fn rank(&self) -> usize {
        self.hal.rank()
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> usize {
        self.hal.size()
    }

    /// Reduces `tensor` over all ranks, in place.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Timeout`], [`Error::Aborted`].
    pub fn all_reduce(&self, stream: &Stream, tensor: &Tensor, op: ReduceOp) -> Result<()> {
        self.run(
            stream,
            &[],
            &[tensor],
            vec![Collective::AllReduce {
                buffer: tensor.raw(),
                op,
            }],
        )
    }

    /// Gives rank i the sum of the i-th parts of all `send`; `counts` are the parts' sizes in elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] when lengths or types do not fit; as [`all_reduce`](Communicator::all_reduce).
    pub fn reduce_scatter(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: &Counts,
        op: ReduceOp,
    ) -> Result<()> {
        self.reduce_scatters(stream, &[Parts { send, recv, counts }], op)
    }

    /// Several of [`reduce_scatter`](Communicator::reduce_scatter) that progress together, on tensors of their own.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Communicator::reduce_scatter).
    pub fn reduce_scatters(&self, stream: &Stream, all: &[Parts<'_>], op: ReduceOp) -> Result<()> {
        let check = |parts: &Parts<'_>| {
            self.check_parts("reduce_scatter", parts.send, parts.recv, parts.counts)?;
            let (send, recv, counts) = (parts.send.raw(), parts.recv.raw(), parts.counts.clone());
            Ok(Collective::ReduceScatter {
                send,
                recv,
                counts,
                op,
            })
        };
        self.run_all(stream, all, all.iter().map(check).collect::<Result<_>>()?)
    }

    /// Gives every rank the concatenation of all `send`; `counts` are the parts' sizes in elements.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Communicator::reduce_scatter).
    pub fn all_gather(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        self.all_gathers(stream, &[Parts { send, recv, counts }])
    }

    /// Several of [`all_gather`](Communicator::all_gather) that progress together, on tensors of their own.
    ///
    /// # Errors
    /// As [`all_gather`](Communicator::all_gather).
    pub fn all_gathers(&self, stream: &Stream, all: &[Parts<'_>]) -> Result<()> {
        let check = |parts: &Parts<'_>| {
            self.check_parts("all_gather", parts.recv, parts.send, parts.counts)?;
            let (send, recv, counts) = (parts.send.raw(), parts.recv.raw(), parts.counts.clone());
            Ok(Collective::AllGather { send, recv, counts })
        };
        self.run_all(stream, all, all.iter().map(check).collect::<Result<_>>()?)
    }

    /// Gives every rank the elements of `root`, in place.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a root outside the group; as [`all_reduce`](Communicator::all_reduce).
    pub fn broadcast(&self, stream: &Stream, tensor: &Tensor, root: usize) -> Result<()> {
        self.check_rank("broadcast", root)?;
        self.run(
            stream,
            &[],
            &[tensor],
            vec![Collective::Broadcast {
                buffer: tensor.raw(),
                root,
            }],
        )
    }

    /// Gives rank j the j-th part of `send` of every rank, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the tensors differ in length or type, overlap, or do not divide by the number of ranks.
    pub fn all_to_all(&self, stream: &Stream, send: &Tensor, recv: &Tensor) -> Result<()> {
        let fits = send.num_elements() == recv.num_elements()
            && send.dtype() == recv.dtype()
            && send.num_elements().is_multiple_of(self.size())
            && !send.overlaps(recv);
        if !fits {
            let needed = format!(
                "two disjoint tensors of one type and length, divisible by {} ranks",
                self.size()
            );
            return Err(self.refuse("all_to_all", format!("{send:?} and {recv:?}"), needed));
        }
        let call = Collective::AllToAll {
            send: send.raw(),
            recv: recv.raw(),
        };
        self.run(stream, &[send], &[recv], vec![call])
    }

    /// Sends a message to rank `to`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank outside the group; as [`all_reduce`](Communicator::all_reduce).
    pub fn send(&self, stream: &Stream, tensor: &Tensor, to: usize) -> Result<()> {
        self.check_rank("send", to)?;
        self.run(
            stream,
            &[tensor],
            &[],
            vec![Collective::Send {
                buffer: tensor.raw(),
                to,
            }],
        )
    }

    /// Receives a message of the tensor's length and type from rank `from`.
    ///
    /// # Errors
    /// As [`send`](Communicator::send).
    pub fn recv(&self, stream: &Stream, tensor: &Tensor, from: usize) -> Result<()> {
        self.check_rank("recv", from)?;
        self.run(
            stream,
            &[],
            &[tensor],
            vec![Collective::Recv {
                buffer: tensor.raw(),
                from,
            }],
        )
    }

    /// Sends and receives at once, without either waiting for the other.
    ///
    /// # Errors
    /// [`Error::Invalid`] for ranks outside the group or overlapping tensors; as [`all_reduce`](Communicator::all_reduce).
    pub fn send_recv(
        &self,
        stream: &Stream,
        send: (&Tensor, usize),
        recv: (&Tensor, usize),
    ) -> Result<()> {
        self.check_rank("send", send.1)?;
        self.check_rank("recv", recv.1)?;
        if send.0.overlaps(recv.0) {
            return Err(self.refuse(
                "send_recv",
                "overlapping tensors".into(),
                "disjoint ones".into(),
            ));
        }
        let send_call = Collective::Send {
            buffer: send.0.raw(),
            to: send.1,
        };
        let recv_call = Collective::Recv {
            buffer: recv.0.raw(),
            from: recv.1,
        };
        self.run(stream, &[send.0], &[recv.0], vec![send_call, recv_call])
    }

    /// Queues a point that the stream passes once every rank's stream has reached it.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn barrier(&self, stream: &Stream) -> Result<()> {
        self.run(stream, &[], &[], vec![Collective::Barrier])
    }

    fn run_all(&self, stream: &Stream, all: &[Parts<'_>], calls: Vec<Collective>) -> Result<()> {
        let Some(first) = calls.first() else {
            return Ok(());
        };
        self.check_apart(first.name(), &calls)?;
        let reads: Vec<_> = all.iter().map(|parts| parts.send).collect();
        let writes: Vec<_> = all.iter().map(|parts| parts.recv).collect();
        self.run(stream, &reads, &writes, calls)
    }

    fn run(
        &self,
        stream: &Stream,
        reads: &[&Tensor],
        writes: &[&Tensor],
        calls: Vec<Collective>,
    ) -> Result<()> {
        let name = calls[0].name();
        self.check_devices(name, stream, reads.iter().chain(writes).copied())?;
        self.compare(&calls)?;
        stream.queue(name, reads, writes, |stream| {
            // SAFETY: the tensors are live, and the storage keeps their memory until the stream has passed this work;
            // lengths, types and ranks were checked by the caller; `queue` waits for other users of the memory.
            unsafe { self.hal.run(stream, &calls) }
        })
    }

    fn compare(&self, calls: &[Collective]) -> Result<()> {
        let Some(exchange) = &self.checked else {
            return Ok(());
        };
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        let messages =
            |call: &Collective| matches!(call, Collective::Send { .. } | Collective::Recv { .. });
        if calls.iter().any(messages) {
            return Ok(()); // a message concerns two ranks only; the receiver compares length and type
        }
        let mine = calls
            .iter()
            .map(Collective::describe)
            .collect::<Vec<_>>()
            .join(", ");
        let all = exchange.all_gather(mine.as_bytes())?;
        match all.iter().position(|call| call != &all[0]) {
            None => Ok(()),
            Some(other) => {
                let call = |rank: usize| {
                    (
                        self.members[rank],
                        String::from_utf8_lossy(&all[rank]).into_owned(),
                    )
                };
                Err(Error::Mismatch {
                    group: self.label.clone(),
                    sequence,
                    one: call(0),
                    other: call(other),
                })
            }
        }
    }

    fn check_parts(
        &self,
        operation: &str,
        whole: &Tensor,
        part: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        if let Counts::Uneven(list) = counts
            && list.len() != self.size()
        {
            let needed = format!("one for each of {} ranks", self.size());
            return Err(self.refuse(operation, format!("{} counts", list.len()), needed));
        }
        let Some(total) = counts.checked_total(self.size()) else {
            let needed = "counts that add up to fewer than 2^64 elements".into();
            return Err(self.refuse(operation, format!("{counts:?}"), needed));
        };
        let own = counts.of(self.rank());
        let fits = whole.num_elements() == total
            && part.num_elements() == own
            && whole.dtype() == part.dtype();
        let in_place = whole
            .raw()
            .part(counts.before(self.rank()).min(whole.num_elements()), 0)
            .addr
            == part.raw().addr;
        if fits && (!whole.overlaps(part) || in_place) {
            return Ok(());
        }
        let needed = format!(
            "{total} and {own} elements of one type, disjoint or the part in its own place"
        );
        Err(self.refuse(operation, format!("{whole:?} and {part:?}"), needed))
    }

    fn check_devices<'a>(
        &self,
        operation: &str,
        stream: &Stream,
        mut tensors: impl Iterator<Item = &'a Tensor>,
    ) -> Result<()> {
        self.device.owns(operation, "a stream", stream.device())?;
        tensors.try_for_each(|tensor| {
            let key = tensor.device().key();
            self.device.owns(operation, "a tensor", key)
        })
    }

    // Calls that progress together: what one writes is apart from all that the others use. Within one call the part may
    // lie in its own place of the whole, which `check_parts` has seen to.
    fn check_apart(&self, operation: &str, calls: &[Collective]) -> Result<()> {
        if calls.len() < 2 {
            return Ok(());
        }
        let mut pieces = Vec::with_capacity(2 * calls.len());
        for call in calls {
            match call {
                Collective::AllGather { send, recv, .. } if send.overlaps(recv) => {
                    pieces.push((*recv, true));
                }
                Collective::ReduceScatter { send, recv, .. } if send.overlaps(recv) => {
                    pieces.push((*send, true));
                }
                Collective::AllGather { send, recv, .. }
                | Collective::ReduceScatter { send, recv, .. } => {
                    pieces.extend([(*send, false), (*recv, true)]);
                }
                _ => pieces.extend(call.buffer().map(|buffer| (buffer, true))),
            }
        }
        overlap::disjoint(operation, &mut pieces)
    }

    fn check_rank(&self, operation: &str, rank: usize) -> Result<()> {
        match rank < self.size() {
            true => Ok(()),
            false => Err(self.refuse(
                operation,
                format!("rank {rank}"),
                format!("a rank below {}", self.size()),
            )),
        }
    }

    fn refuse(&self, operation: &str, found: String, needed: String) -> Error {
        Error::invalid(
            format!(
                "{operation} on {} (rank {})",
                self.label,
                self.members[self.rank()]
            ),
            found,
            needed,
        )
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Communicator({}, {} of {})",
            self.label,
            self.rank(),
            self.size()
        )
    }
}
