//! Collectives along an axis, with their bytes counted.
//!
//! A group that spans nodes has two forms of each collective: the flat one, and the one in two levels of
//! `levels`. Both count the same bytes: those of the collective itself, whatever its route.

mod levels;
mod purpose;

pub use purpose::Purpose;

use crate::{
    Context,
    counters::{Operation, Subject},
};
use grid::Axis;
use hal::{Counts, Join};
use levels::Levels;
use tensor::{Communicator, ReduceOp, Result, Scalar, Stream, Tensor, UnevenShards};

/// One rank's end of a group along an axis.
#[derive(Debug)]
pub struct Group {
    communicator: Communicator,
    axis: Axis,
    levels: Option<Levels>,
}

impl Group {
    /// Joins the group of `members`: the first member, or the rank that stands for it, creates the id and sends
    /// it to the others.
    pub(crate) fn join(
        context: &Context,
        label: &str,
        axis: Axis,
        members: &[usize],
        purpose: Purpose,
    ) -> Result<Group> {
        let communicator = join(context, label, members, purpose)?;
        let levels = Levels::of(
            context,
            label,
            context.grid().inner_product(axis),
            members,
            purpose,
        );
        Ok(Group {
            communicator,
            axis,
            levels,
        })
    }

    // The two levels, if this collective is to use them.
    fn levels(
        &self,
        context: &Context,
        operation: Operation,
        elements: usize,
        bytes: usize,
    ) -> Option<&Levels> {
        let suited = self
            .levels
            .as_ref()
            .filter(|levels| levels.suit(context, operation, elements, bytes))?;
        context.note_levels(self.axis, operation);
        Some(suited)
    }

    /// This rank's index within the group.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> usize {
        self.communicator.size()
    }

    /// Makes the connections for messages: as [`Communicator::connect`].
    ///
    /// # Errors
    /// As [`Communicator::connect`].
    pub(crate) fn connect(&self) -> Result<()> {
        self.communicator.connect()
    }

    /// Reduces `tensor` over the group, in place.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a stream or tensor of another device;
    /// [`Error::Timeout`](crate::Error::Timeout), [`Error::Mismatch`](crate::Error::Mismatch) and
    /// [`Error::Aborted`](crate::Error::Aborted), here or where the result is used.
    pub fn all_reduce(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        op: ReduceOp,
    ) -> Result<()> {
        context.count(self.axis, Operation::AllReduce, subject, tensor.bytes());
        match self.levels(
            context,
            Operation::AllReduce,
            tensor.num_elements(),
            tensor.bytes(),
        ) {
            Some(levels) => levels.all_reduce(context, stream, tensor, op),
            None => self.communicator.all_reduce(stream, tensor, op),
        }
    }

    /// Several [`all_reduce`](Group::all_reduce) that progress together, each on its own tensor.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce); [`Error::Invalid`](crate::Error::Invalid) also when two of the tensors overlap.
    pub fn all_reduces(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensors: &[&Tensor],
        op: ReduceOp,
    ) -> Result<()> {
        let mut flat = Vec::with_capacity(tensors.len());
        for &tensor in tensors {
            let (elements, bytes) = (tensor.num_elements(), tensor.bytes());
            context.count(self.axis, Operation::AllReduce, subject, bytes);
            match self.levels(context, Operation::AllReduce, elements, bytes) {
                Some(levels) => levels.all_reduce(context, stream, tensor, op)?,
                None => flat.push(tensor),
            }
        }
        self.communicator.all_reduces(stream, &flat, op)
    }

    /// Every rank receives the concatenation of all `part` in `whole`; `counts` holds the parts' elements.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when lengths, types or counts do not fit; otherwise as
    /// [`all_reduce`](Group::all_reduce).
    pub fn all_gather(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        part: &Tensor,
        whole: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        context.count(self.axis, Operation::AllGather, subject, whole.bytes());
        match self.levels(
            context,
            Operation::AllGather,
            whole.num_elements(),
            whole.bytes(),
        ) {
            Some(levels) => levels.all_gather(context, stream, part, whole, counts),
            None => self.communicator.all_gather(stream, part, whole, counts),
        }
    }

    /// Rank i receives the sum of the i-th parts of all `whole` in `part`; `counts` holds the parts' elements.
    ///
    /// # Errors
    /// As [`all_gather`](Group::all_gather).
    pub fn reduce_scatter(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        whole: &Tensor,
        part: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        let one = UnevenShards {
            send: whole,
            recv: part,
            counts,
        };
        self.reduce_scatters(context, subject, stream, &[one], ReduceOp::Sum)
    }

    /// Several [`reduce_scatter`](Group::reduce_scatter) with another operation that progress together, each on its own tensors.
    ///
    /// # Errors
    /// As [`all_gather`](Group::all_gather); [`Error::Invalid`](crate::Error::Invalid) also when what one of them writes overlaps the
    /// tensors of another.
    pub fn reduce_scatters(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        all: &[UnevenShards<'_>],
        op: ReduceOp,
    ) -> Result<()> {
        let mut flat = Vec::with_capacity(all.len());
        for &one in all {
            let (elements, bytes) = (one.send.num_elements(), one.send.bytes());
            context.count(self.axis, Operation::ReduceScatter, subject, bytes);
            match self.levels(context, Operation::ReduceScatter, elements, bytes) {
                Some(levels) => {
                    levels.reduce_scatter(context, stream, one.send, one.recv, one.counts, op)?;
                }
                None => flat.push(one),
            }
        }
        self.communicator.reduce_scatters(stream, &flat, op)
    }

    /// Every rank receives the elements of rank `root` of the group, in place.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce); [`Error::Invalid`](crate::Error::Invalid) for a root outside the group.
    pub fn broadcast(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        root: usize,
    ) -> Result<()> {
        context.count(self.axis, Operation::Broadcast, subject, tensor.bytes());
        self.communicator.broadcast(stream, tensor, root)
    }

    /// Rank j of the group receives the j-th part of every rank's `send`, in the order of ranks.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce); [`Error::Invalid`](crate::Error::Invalid) for tensors that differ in length
    /// or type, overlap, or do not divide by the number of ranks.
    pub fn all_to_all(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
    ) -> Result<()> {
        context.count(self.axis, Operation::AllToAll, subject, send.bytes());
        self.communicator.all_to_all(stream, send, recv)
    }

    /// Queues a point that the stream passes once the streams of all ranks have reached it.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce).
    pub fn barrier(&self, stream: &Stream) -> Result<()> {
        self.communicator.barrier(stream)
    }

    /// Sends `send` to the next rank of the group, and receives `recv` from the one before; the last rank's next is the first.
    ///
    /// # Errors
    /// As [`broadcast`](Group::broadcast).
    pub(crate) fn pass_on(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        [send, recv]: [&Tensor; 2],
    ) -> Result<()> {
        context.count(self.axis, Operation::Send, subject, send.bytes());
        context.count(self.axis, Operation::Recv, subject, recv.bytes());
        let (rank, size) = (self.rank(), self.size());
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        self.communicator
            .send_recv(stream, (send, next), (recv, before))
    }

    /// Reduces plain host numbers over the group, in place: metrics, counts, votes.
    ///
    /// # Cost
    /// A copy to the device, the collective, and a copy back, for which the host waits.
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce); [`Error::Unsupported`](crate::Error::Unsupported) for a type that the
    /// device lacks; [`Error::NoValues`](crate::Error::NoValues) on a device without values.
    pub fn all_reduce_numbers<T: Scalar>(
        &self,
        context: &Context,
        subject: Subject,
        numbers: &mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let device = context.device();
        let tensor = Tensor::from_slice(device, &[numbers.len()], numbers)?;
        self.all_reduce(context, subject, &device.compute(), &tensor, op)?;
        numbers.copy_from_slice(&tensor.to_vec()?);
        Ok(())
    }

    /// Sends a message to rank `to` of the group.
    ///
    /// # Errors
    /// As [`broadcast`](Group::broadcast), for a rank outside the group.
    pub fn send(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        to: usize,
    ) -> Result<()> {
        context.count(self.axis, Operation::Send, subject, tensor.bytes());
        self.communicator.send(stream, tensor, to)
    }

    /// Receives a message from rank `from` of the group.
    ///
    /// # Errors
    /// As [`send`](Group::send).
    pub fn recv(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        from: usize,
    ) -> Result<()> {
        context.count(self.axis, Operation::Recv, subject, tensor.bytes());
        self.communicator.recv(stream, tensor, from)
    }
}

/// Joins the group of `members`: the first member, or the rank that stands for it, creates the id and sends it
/// to the others.
fn join(
    context: &Context,
    label: &str,
    members: &[usize],
    purpose: Purpose,
) -> Result<Communicator> {
    let world = context.world();
    let label = format!("{label} ({purpose:?})").to_lowercase();
    let exchange = world.exchange(&label, members)?;
    let hal_device = context.device().hal();
    let own_id = if exchange.stands_for(0) {
        hal_device.create_group()?.0
    } else {
        Vec::new()
    };
    let join = Join {
        id: hal::GroupId(exchange.broadcast(0, &own_id)?),
        label,
        rank: exchange.rank(),
        members: members.to_vec(),
        timeout: world.timeout(),
        abort: world.abort().clone(),
    };
    let checked = context.settings().checked.then_some(exchange);
    Communicator::join(context.device(), join, checked)
}
