//! Collectives along an axis, with their bytes counted.

use crate::{
    Context,
    counters::{Operation, Subject},
};
use ::tensor::{Communicator, ReduceOp, Result, Stream, Tensor};
use grid::Axis;
use hal::{Counts, Join};

/// What a group's communicator is for. Each purpose has its own, so that work of one never queues behind another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Collectives that their caller needs at once, and OAR.
    Main,
    /// Gathers of weights (OAG).
    Gather,
    /// Reduce-scatters of weight gradients (ORS).
    Scatter,
    /// Reductions of gradient buckets.
    Bucket,
    /// Activations between pipeline stages.
    Activation,
    /// Gradients between pipeline stages.
    Gradient,
}

/// One rank's end of a group along an axis.
#[derive(Debug)]
pub struct Group {
    communicator: Communicator,
    axis: Axis,
}

impl Group {
    /// Joins the group of `members`: the first, or the rank that stands for it, makes its id and sends it to the others.
    pub(crate) fn join(
        context: &Context,
        label: &str,
        axis: Axis,
        members: &[usize],
        purpose: Purpose,
    ) -> Result<Group> {
        let world = context.world();
        let label = format!("{label} ({purpose:?})").to_lowercase();
        let exchange = world.exchange(&label, members)?;
        let hal_device = context.device().hal();
        let own_id = if exchange.stands_for(0) { hal_device.create_group()?.0 } else { Vec::new() };
        let join = Join {
            id: hal::GroupId(exchange.broadcast(0, &own_id)?),
            label,
            rank: exchange.rank(),
            members: members.to_vec(),
            timeout: world.timeout(),
            abort: world.abort().clone(),
        };
        let checked = context.settings().checked.then_some(exchange);
        let communicator = Communicator::join(context.device(), join, checked)?;
        Ok(Group { communicator, axis })
    }

    /// This rank's index within the group.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> usize {
        self.communicator.size()
    }

    /// Reduces `tensor` over the group, in place.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout), [`Error::Mismatch`](crate::Error::Mismatch),
    /// [`Error::Aborted`](crate::Error::Aborted), here or where the result is used.
    pub fn all_reduce(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        op: ReduceOp,
    ) -> Result<()> {
        context.counters().add(self.axis, Operation::AllReduce, subject, tensor.bytes());
        self.communicator.all_reduce(stream, tensor, op)
    }

    /// Gives every rank the concatenation of all `part` in `whole`; `counts` are the parts' elements.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce).
    pub fn all_gather(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        part: &Tensor,
        whole: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        context.counters().add(self.axis, Operation::AllGather, subject, whole.bytes());
        self.communicator.all_gather(stream, part, whole, counts)
    }

    /// Gives rank i the sum of the i-th parts of all `whole` in `part`; `counts` are the parts' elements.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce).
    pub fn reduce_scatter(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        whole: &Tensor,
        part: &Tensor,
        counts: &Counts,
    ) -> Result<()> {
        context.counters().add(self.axis, Operation::ReduceScatter, subject, whole.bytes());
        self.communicator.reduce_scatter(stream, whole, part, counts, ReduceOp::Sum)
    }

    /// Sends a message to rank `to` of the group.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce).
    pub fn send(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        to: usize,
    ) -> Result<()> {
        context.counters().add(self.axis, Operation::Send, subject, tensor.bytes());
        self.communicator.send(stream, tensor, to)
    }

    /// Receives a message from rank `from` of the group.
    ///
    /// # Errors
    /// As [`all_reduce`](Group::all_reduce).
    pub fn recv(
        &self,
        context: &Context,
        subject: Subject,
        stream: &Stream,
        tensor: &Tensor,
        from: usize,
    ) -> Result<()> {
        context.counters().add(self.axis, Operation::Recv, subject, tensor.bytes());
        self.communicator.recv(stream, tensor, from)
    }
}
