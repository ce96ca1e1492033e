//! Collectives between the ranks of a group, with every argument checked.

use crate::{
    Arguments, Device, ReduceOp, Stream, Tensor, UnevenShards, device::DeviceKey, overlap, trace,
};
use hal::{Collective, Counts, Error, Exchange, Join, RawSlice, Result};
use std::{fmt, sync::Arc};

/// One rank's end of a process group.
///
/// Every operation is collective: all ranks of the group must make the same calls in the same order. Operations
/// are queued on the given stream, and the host waits only if the stream is the host's own.
///
/// In checked mode the ranks compare their calls on the host before each is queued. A difference is
/// [`Error::Mismatch`] on every rank, instead of a hang or corrupt numbers.
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
    /// [`Error::Invalid`] for a rank that is not a member; those of [`hal::Device::join`]: [`Error::Timeout`] naming
    /// the ranks that did not arrive, [`Error::Aborted`] and others.
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

    /// Makes the connections for messages between the ranks, so that the first ones do not hold the hosts. All ranks call
    /// it, before any message; a vendor without such connections does nothing.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn connect(&self) -> Result<()> {
        self.hal.connect()
    }

    /// Reduces `tensor` over all ranks, in place.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream or tensor of another device, and for an average of integers; [`Error::Mismatch`], [`Error::Timeout`],
    /// [`Error::Aborted`] and [`Error::Vendor`], here or where the result is used.
    pub fn all_reduce(&self, stream: &Stream, tensor: &Tensor, op: ReduceOp) -> Result<()> {
        let mut args = Arguments::default();
        let buffer = args.take(tensor);
        self.run(stream, &mut args, &[Collective::AllReduce { buffer, op }])
    }

    /// Several [`all_reduce`](Communicator::all_reduce) that progress together, each on its own tensor.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce); [`Error::Invalid`] also when two of the tensors overlap.
    pub fn all_reduces(&self, stream: &Stream, tensors: &[&Tensor], op: ReduceOp) -> Result<()> {
        let mut args = Arguments::default();
        let calls = tensors.iter().map(|tensor| {
            let buffer = args.take(tensor);
            Collective::AllReduce { buffer, op }
        });
        let calls: Vec<Collective> = calls.collect();
        self.run(stream, &mut args, &calls)
    }

    /// Rank i receives the sum of the i-th parts of all `send`; `counts` holds the parts' sizes in elements.
    ///
    /// # Errors
    /// [`Error::Invalid`] when lengths, types or counts do not fit, or `recv` lies in `send` but not in its own place;
    /// otherwise as [`all_reduce`](Communicator::all_reduce).
    pub fn reduce_scatter(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: &Counts,
        op: ReduceOp,
    ) -> Result<()> {
        self.reduce_scatters(stream, &[UnevenShards { send, recv, counts }], op)
    }

    /// Several [`reduce_scatter`](Communicator::reduce_scatter) that progress together, each on its own
    /// tensors.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Communicator::reduce_scatter); [`Error::Invalid`] also when what one of them writes
    /// overlaps the tensors of another.
    pub fn reduce_scatters(
        &self,
        stream: &Stream,
        all: &[UnevenShards<'_>],
        op: ReduceOp,
    ) -> Result<()> {
        let mut args = Arguments::default();
        let mut calls = Vec::with_capacity(all.len());
        for UnevenShards { send, recv, counts } in all {
            self.check_parts("reduce_scatter", send, recv, counts)?;
            let slices = [args.take(send), args.take(recv)];
            self.check_place("reduce_scatter", slices[0], slices[1], counts)?;
            calls.push(Collective::ReduceScatter {
                send: slices[0],
                recv: slices[1],
                counts: (*counts).clone(),
                op,
            });
        }
        self.run(stream, &mut args, &calls)
    }

    /// Every rank receives the concatenation of all `send`; `counts` holds the parts' sizes in elements.
    ///
    /// # Errors
    /// As [`reduce_scatter`](Communicator::reduce_scatter), with `send` and `recv` exchanged.
    pub fn all_gather(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        self.all_gathers(stream, &[UnevenShards { send, recv, counts }])
    }

    /// Several [`all_gather`](Communicator::all_gather) that progress together, each on its own tensors.
    ///
    /// # Errors
    /// As [`reduce_scatters`](Communicator::reduce_scatters).
    pub fn all_gathers(&self, stream: &Stream, all: &[UnevenShards<'_>]) -> Result<()> {
        let mut args = Arguments::default();
        let mut calls = Vec::with_capacity(all.len());
        for UnevenShards { send, recv, counts } in all {
            self.check_parts("all_gather", recv, send, counts)?;
            let slices = [args.take(send), args.take(recv)];
            self.check_place("all_gather", slices[1], slices[0], counts)?;
            calls.push(Collective::AllGather {
                send: slices[0],
                recv: slices[1],
                counts: (*counts).clone(),
            });
        }
        self.run(stream, &mut args, &calls)
    }

    /// Every rank receives the elements of `root`, in place.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a root outside the group; otherwise as [`all_reduce`](Communicator::all_reduce).
    pub fn broadcast(&self, stream: &Stream, tensor: &Tensor, root: usize) -> Result<()> {
        self.check_rank("broadcast", root)?;
        let mut args = Arguments::default();
        let buffer = args.take(tensor);
        self.run(stream, &mut args, &[Collective::Broadcast { buffer, root }])
    }

    /// Rank j receives the j-th part of every rank's `send`, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the tensors differ in length or type, overlap, or do not divide by the number of ranks;
    /// otherwise as [`all_reduce`](Communicator::all_reduce).
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
        let mut args = Arguments::default();
        let call = Collective::AllToAll {
            send: args.take(send),
            recv: args.take(recv),
        };
        self.run(stream, &mut args, &[call])
    }

    /// Sends a message to rank `to`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank outside the group; otherwise as [`all_reduce`](Communicator::all_reduce).
    pub fn send(&self, stream: &Stream, tensor: &Tensor, to: usize) -> Result<()> {
        self.check_rank("send", to)?;
        let mut args = Arguments::default();
        let buffer = args.take(tensor);
        self.run(stream, &mut args, &[Collective::Send { buffer, to }])
    }

    /// Receives a message of the tensor's length and type from rank `from`.
    ///
    /// # Errors
    /// As [`send`](Communicator::send).
    pub fn recv(&self, stream: &Stream, tensor: &Tensor, from: usize) -> Result<()> {
        self.check_rank("recv", from)?;
        let mut args = Arguments::default();
        let buffer = args.take(tensor);
        self.run(stream, &mut args, &[Collective::Recv { buffer, from }])
    }

    /// Sends and receives at once, without either waiting for the other.
    ///
    /// # Errors
    /// [`Error::Invalid`] for ranks outside the group or overlapping tensors; otherwise as
    /// [`all_reduce`](Communicator::all_reduce).
    pub fn send_recv(
        &self,
        stream: &Stream,
        send: (&Tensor, usize),
        recv: (&Tensor, usize),
    ) -> Result<()> {
        self.check_rank("send", send.1)?;
        self.check_rank("recv", recv.1)?;
        let mut args = Arguments::default();
        let send = Collective::Send {
            buffer: args.take(send.0),
            to: send.1,
        };
        let recv = Collective::Recv {
            buffer: args.take(recv.0),
            from: recv.1,
        };
        self.run(stream, &mut args, &[send, recv])
    }

    /// Queues a point that the stream passes once the streams of all ranks have reached it.
    ///
    /// # Errors
    /// As [`all_reduce`](Communicator::all_reduce).
    pub fn barrier(&self, stream: &Stream) -> Result<()> {
        self.run(stream, &mut Arguments::default(), &[Collective::Barrier])
    }

    // Runs calls made of these arguments, whose lengths, types and ranks have been checked.
    fn run(
        &self,
        stream: &Stream,
        arguments: &mut Arguments<'_>,
        calls: &[Collective],
    ) -> Result<()> {
        let Some(first) = calls.first() else {
            return Ok(());
        };
        let name = first.name();
        arguments.name(name, |visit| {
            calls.iter().for_each(|call| call.operands(visit));
        });
        self.device.owns(name, "a stream", stream.device())?;
        for (tensor, _) in arguments.uses() {
            let key = tensor.device().key();
            self.device.owns(name, "a tensor", key)?;
        }
        check_apart(name, calls)?;
        calls.iter().try_for_each(check_average)?;
        self.compare(calls)?;
        stream.queue(name, arguments, |stream| {
            // SAFETY: the operands are the tensors of `arguments` (asserted above). They are live, and their
            // storage keeps the memory until the stream has passed this work. The caller has checked lengths,
            // types and ranks; devices and overlap are checked above; `queue` waits for other users of the
            // memory.
            unsafe { self.hal.run(stream, calls) }
        })?;
        if let Some(device) = arguments.device() {
            trace::of_group(device, &self.label);
        }
        Ok(())
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
            .map(Collective::describe_with_parts)
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
        if fits {
            return Ok(());
        }
        let needed = format!("{total} and {own} elements of one type");
        Err(self.refuse(operation, format!("{whole:?} and {part:?}"), needed))
    }

    // The part may lie at its own place within the larger tensor.
    fn check_place(
        &self,
        operation: &str,
        whole: RawSlice,
        part: RawSlice,
        counts: &Counts,
    ) -> Result<()> {
        let place = whole.part(counts.before(self.rank()), part.len);
        if !whole.overlaps(&part) || place == part {
            return Ok(());
        }
        let found = format!(
            "a part of {} elements at another place in the full tensor",
            part.len
        );
        let needed = "disjoint tensors, or the part in its own place".into();
        Err(self.refuse(operation, found, needed))
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

// In calls that progress together, what one call writes is disjoint from everything that the others use. Within
// one call, an input may lie inside an output or the reverse, as far as its own check allows; the longer of the
// two then counts as written.
fn check_apart(operation: &str, calls: &[Collective]) -> Result<()> {
    if calls.len() < 2 {
        return Ok(());
    }
    let mut pieces: Vec<(RawSlice, bool)> = Vec::with_capacity(2 * calls.len());
    for call in calls {
        let first = pieces.len();
        call.operands(&mut |operand| {
            let piece = (operand.slice, operand.access.writes());
            match pieces.get_mut(first) {
                Some(own) if own.0.overlaps(&piece.0) => {
                    let longer = if own.0.len < piece.0.len {
                        piece.0
                    } else {
                        own.0
                    };
                    *own = (longer, own.1 || piece.1);
                }
                _ => pieces.push(piece),
            }
        });
    }
    overlap::disjoint(operation, &mut pieces)
}

// Integers have no average of their own type.
fn check_average(call: &Collective) -> Result<()> {
    let (Collective::AllReduce { buffer, op }
    | Collective::ReduceScatter {
        send: buffer, op, ..
    }) = call
    else {
        return Ok(());
    };
    if *op != ReduceOp::Avg || buffer.dtype.is_float() {
        return Ok(());
    }
    let found = format!("an average of {}", buffer.dtype);
    Err(Error::invalid(call.name(), found, "a float type"))
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
