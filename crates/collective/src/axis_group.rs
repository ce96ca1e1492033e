//! Collectives over the ranks of one or several axes, on a program's own memory.

use grid::Axis;
use hal::{Counts, Exchange};
use parallel::{
    Context, Group, Purpose,
    counters::{Operation, Subject},
};
use std::{fmt, rc::Rc, sync::Arc};
use tensor::{Error, ReduceOp, Result, Scalar, Stream, Tensor, UnevenShards, ops};

/// This rank's end of the group of ranks that differ from it only on some axes of the grid.
///
/// Every operation is collective: all ranks of the group make the same calls in the same order. On slices they return when the
/// result is there; the operations on tensors (`..._on`) are queued on a stream. A group of one rank moves nothing.
///
/// # Source
/// The semantics are those of MPI 4.1, chapter 6, with counts in elements.
#[derive(Clone)]
pub struct AxisGroup {
    context: Context,
    axes: Vec<Axis>,
    group: Option<Rc<Group>>,
}

impl AxisGroup {
    /// The group over these axes, of which at least one is named. Collective when it is made for the first time.
    ///
    /// # Errors
    /// [`Error::Invalid`] without an axis; those of [`Context::group`].
    pub fn new(context: &Context, axes: &[Axis]) -> Result<AxisGroup> {
        AxisGroup::of(context, axes, Purpose::Main)
    }

    /// The group over axes that a text names: `data`, `data,z`, or `all` for every rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is no axis; otherwise as [`new`](AxisGroup::new).
    pub fn named(context: &Context, axes: &str) -> Result<AxisGroup> {
        if axes == "all" {
            return AxisGroup::new(context, &Axis::ALL);
        }
        let axes = axes.split(',').map(|name| {
            let parsed = name.trim().parse::<Axis>();
            parsed.map_err(|error| {
                Error::invalid("axes", error.to_string(), "axes of the grid, or `all`")
            })
        });
        AxisGroup::new(context, &axes.collect::<Result<Vec<Axis>>>()?)
    }

    /// The group over these axes, with communicators of this purpose.
    pub(crate) fn of(context: &Context, axes: &[Axis], purpose: Purpose) -> Result<AxisGroup> {
        let mut axes = axes.to_vec();
        axes.sort();
        axes.dedup();
        if axes.is_empty() {
            return Err(Error::invalid("axes", "none", "at least one axis"));
        }
        let cut: Vec<Axis> = axes
            .iter()
            .copied()
            .filter(|&axis| context.degree(axis) > 1)
            .collect();
        let group = match cut[..] {
            [] => None,
            [axis] => context.group(axis, purpose)?,
            [first, ..] => {
                let members = context.members(&axes);
                Some(context.group_of(label(&axes), first, &members, purpose)?)
            }
        };
        let context = context.clone();
        Ok(AxisGroup {
            context,
            axes,
            group,
        })
    }

    /// The same ranks, with communicators of another purpose.
    pub(crate) fn with(&self, purpose: Purpose) -> Result<AxisGroup> {
        AxisGroup::of(&self.context, &self.axes, purpose)
    }

    /// This rank's view of the job.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// This rank's index within the group.
    pub fn rank(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.rank())
    }

    /// Number of ranks in the group.
    pub fn size(&self) -> usize {
        self.group.as_ref().map_or(1, |group| group.size())
    }

    /// An exchange of bytes between the hosts of the group's ranks.
    ///
    /// # Errors
    /// Those of [`Context::exchange`].
    pub(crate) fn exchange(&self, purpose: &str) -> Result<Arc<dyn Exchange>> {
        let label = format!("{} ({purpose})", label(&self.axes));
        self.context.exchange(&label, &self.axes)
    }

    /// Reduces the elements over all ranks, in place.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a type that the device lacks; [`Error::Mismatch`] where ranks call differently, as far as the
    /// vendor compares; [`Error::Timeout`] naming the ranks that did not arrive; [`Error::Aborted`]; [`Error::Vendor`].
    pub fn all_reduce<T: Scalar>(&self, elements: &mut [T], op: ReduceOp) -> Result<()> {
        self.all_reduces(&mut [elements], op)
    }

    /// Several [`all_reduce`](AxisGroup::all_reduce) that progress together.
    ///
    /// # Errors
    /// As [`all_reduce`](AxisGroup::all_reduce).
    pub fn all_reduces<T: Scalar>(&self, all: &mut [&mut [T]], op: ReduceOp) -> Result<()> {
        if self.group.is_none() {
            return Ok(());
        }
        Tensor::lend_all_mut(self.context.device(), all, |tensors| {
            let tensors: Vec<&Tensor> = tensors.iter().collect();
            self.all_reduces_on(&self.context.device().compute(), &tensors, op)
        })
    }

    /// Rank i receives the sum of the i-th parts of all `send`, whose lengths are `counts`; without counts all parts have the
    /// length of `recv`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for lengths that do not fit; otherwise as [`all_reduce`](AxisGroup::all_reduce).
    pub fn reduce_scatter<T: Scalar>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: Option<&[usize]>,
    ) -> Result<()> {
        self.lend(send, recv, |stream, send, recv| {
            self.reduce_scatter_on(stream, send, recv, counts)
        })
    }

    /// Every rank receives the concatenation of all `send`, whose lengths are `counts`; without counts all have the length of
    /// this rank's.
    ///
    /// # Errors
    /// As [`reduce_scatter`](AxisGroup::reduce_scatter).
    pub fn all_gather<T: Scalar>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: Option<&[usize]>,
    ) -> Result<()> {
        self.lend(send, recv, |stream, send, recv| {
            self.all_gather_on(stream, send, recv, counts)
        })
    }

    /// Every rank receives the elements of rank `root` of the group, in place.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank outside the group; otherwise as [`all_reduce`](AxisGroup::all_reduce).
    pub fn broadcast<T: Scalar>(&self, elements: &mut [T], root: usize) -> Result<()> {
        self.is_member("broadcast", root)?;
        let device = self.context.device();
        Tensor::lend_mut(device, &[elements.len()], elements, |tensor| {
            self.broadcast_on(&device.compute(), tensor, root)
        })
    }

    /// Rank j receives the j-th part of every rank's `send`, in the order of ranks; all parts have one length.
    ///
    /// # Errors
    /// [`Error::Invalid`] for lengths that differ or do not divide by the number of ranks; otherwise as
    /// [`all_reduce`](AxisGroup::all_reduce).
    pub fn all_to_all<T: Scalar>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.lend(send, recv, |stream, send, recv| {
            self.all_to_all_on(stream, send, recv)
        })
    }

    /// Sends a message to rank `to` of the group, which receives as many elements of the same type.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank outside the group, and for this one; otherwise as [`all_reduce`](AxisGroup::all_reduce).
    pub fn send<T: Scalar>(&self, elements: &[T], to: usize) -> Result<()> {
        let device = self.context.device();
        Tensor::lend(device, &[elements.len()], elements, |tensor| {
            self.send_on(&device.compute(), tensor, to)
        })
    }

    /// Receives a message from rank `from` of the group.
    ///
    /// # Errors
    /// As [`send`](AxisGroup::send).
    pub fn recv<T: Scalar>(&self, elements: &mut [T], from: usize) -> Result<()> {
        let device = self.context.device();
        Tensor::lend_mut(device, &[elements.len()], elements, |tensor| {
            self.recv_on(&device.compute(), tensor, from)
        })
    }

    /// Returns once all ranks of the group have called it, and their devices have done what was queued before.
    ///
    /// # Errors
    /// As [`all_reduce`](AxisGroup::all_reduce).
    pub fn barrier(&self) -> Result<()> {
        let stream = self.context.device().compute();
        if let Some(group) = &self.group {
            group.barrier(&stream)?;
        }
        stream.synchronize()
    }

    /// [`all_reduce`](AxisGroup::all_reduce) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stream or tensor of another device; otherwise as [`all_reduce`](AxisGroup::all_reduce).
    pub fn all_reduce_on(&self, stream: &Stream, tensor: &Tensor, op: ReduceOp) -> Result<()> {
        match &self.group {
            None => Ok(()),
            Some(group) => group.all_reduce(&self.context, Subject::Other, stream, tensor, op),
        }
    }

    /// Several [`all_reduce_on`](AxisGroup::all_reduce_on) that progress together.
    ///
    /// # Errors
    /// As [`all_reduce_on`](AxisGroup::all_reduce_on); [`Error::Invalid`] also when two of the tensors overlap.
    pub fn all_reduces_on(&self, stream: &Stream, tensors: &[&Tensor], op: ReduceOp) -> Result<()> {
        match &self.group {
            None => Ok(()),
            Some(group) => group.all_reduces(&self.context, Subject::Other, stream, tensors, op),
        }
    }

    /// [`reduce_scatter`](AxisGroup::reduce_scatter) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`all_reduce_on`](AxisGroup::all_reduce_on) and [`reduce_scatter`](AxisGroup::reduce_scatter).
    pub fn reduce_scatter_on(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: Option<&[usize]>,
    ) -> Result<()> {
        let counts = parts(counts, recv);
        let one = UnevenShards {
            send,
            recv,
            counts: &counts,
        };
        self.reduce_scatters_on(stream, &[one], ReduceOp::Sum)
    }

    /// Several [`reduce_scatter_on`](AxisGroup::reduce_scatter_on) with another operation that progress together, each on its own
    /// tensors.
    ///
    /// # Errors
    /// As [`reduce_scatter_on`](AxisGroup::reduce_scatter_on); [`Error::Invalid`] also when two of them overlap.
    pub fn reduce_scatters_on(
        &self,
        stream: &Stream,
        all: &[UnevenShards<'_>],
        op: ReduceOp,
    ) -> Result<()> {
        match &self.group {
            None => all
                .iter()
                .try_for_each(|one| copy("reduce_scatter", stream, one.send, one.recv)),
            Some(group) => group.reduce_scatters(&self.context, Subject::Other, stream, all, op),
        }
    }

    /// [`all_gather`](AxisGroup::all_gather) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`reduce_scatter_on`](AxisGroup::reduce_scatter_on).
    pub fn all_gather_on(
        &self,
        stream: &Stream,
        send: &Tensor,
        recv: &Tensor,
        counts: Option<&[usize]>,
    ) -> Result<()> {
        let counts = parts(counts, send);
        match &self.group {
            None => copy("all_gather", stream, send, recv),
            Some(group) => {
                group.all_gather(&self.context, Subject::Other, stream, send, recv, &counts)
            }
        }
    }

    /// [`broadcast`](AxisGroup::broadcast) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`all_reduce_on`](AxisGroup::all_reduce_on) and [`broadcast`](AxisGroup::broadcast).
    pub fn broadcast_on(&self, stream: &Stream, tensor: &Tensor, root: usize) -> Result<()> {
        self.is_member("broadcast", root)?;
        match &self.group {
            None => Ok(()),
            Some(group) => group.broadcast(&self.context, Subject::Other, stream, tensor, root),
        }
    }

    /// [`all_to_all`](AxisGroup::all_to_all) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`all_reduce_on`](AxisGroup::all_reduce_on) and [`all_to_all`](AxisGroup::all_to_all).
    pub fn all_to_all_on(&self, stream: &Stream, send: &Tensor, recv: &Tensor) -> Result<()> {
        match &self.group {
            None => copy("all_to_all", stream, send, recv),
            Some(group) => group.all_to_all(&self.context, Subject::Other, stream, send, recv),
        }
    }

    /// [`send`](AxisGroup::send) of a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`all_reduce_on`](AxisGroup::all_reduce_on) and [`send`](AxisGroup::send).
    pub fn send_on(&self, stream: &Stream, tensor: &Tensor, to: usize) -> Result<()> {
        let group = self.peer("send", to)?;
        group.send(&self.context, Subject::Other, stream, tensor, to)
    }

    /// [`recv`](AxisGroup::recv) into a tensor, queued on a stream.
    ///
    /// # Errors
    /// As [`send_on`](AxisGroup::send_on).
    pub fn recv_on(&self, stream: &Stream, tensor: &Tensor, from: usize) -> Result<()> {
        let group = self.peer("recv", from)?;
        group.recv(&self.context, Subject::Other, stream, tensor, from)
    }

    /// Bytes of the buffers on which programs' own collectives have worked along the group's axes, since the counters of the
    /// context were reset.
    pub fn moved_bytes(&self, operation: Operation) -> u64 {
        let counters = self.context.counters();
        let of = |&axis: &Axis| counters.get(axis, operation, Subject::Other).bytes;
        self.axes.iter().map(of).sum()
    }

    // Runs `work` on one slice to read and one to write.
    fn lend<T: Scalar>(
        &self,
        send: &[T],
        recv: &mut [T],
        work: impl FnOnce(&Stream, &Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let device = self.context.device();
        Tensor::lend(device, &[send.len()], send, |send| {
            Tensor::lend_mut(device, &[recv.len()], recv, |recv| {
                work(&device.compute(), send, recv)
            })
        })
    }

    fn is_member(&self, operation: &str, rank: usize) -> Result<()> {
        match rank < self.size() {
            true => Ok(()),
            false => Err(self.refuse(operation, rank, format!("a rank below {}", self.size()))),
        }
    }

    fn peer(&self, operation: &str, rank: usize) -> Result<&Group> {
        self.is_member(operation, rank)?;
        match &self.group {
            Some(group) if rank != group.rank() => Ok(group),
            _ => Err(self.refuse(operation, rank, "another rank than this one".into())),
        }
    }

    fn refuse(&self, operation: &str, rank: usize, needed: String) -> Error {
        let place = format!(
            "{operation} on {} (rank {})",
            label(&self.axes),
            self.rank()
        );
        Error::invalid(place, format!("rank {rank}"), needed)
    }
}

fn label(axes: &[Axis]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name()).collect();
    match names.len() {
        1 => format!("axis {}", names[0]),
        _ => format!("axes {}", names.join(", ")),
    }
}

fn parts(counts: Option<&[usize]>, own: &Tensor) -> Counts {
    counts.map_or(Counts::Even(own.num_elements()), |counts| {
        Counts::Uneven(counts.to_vec())
    })
}

// The result of moving a rank's elements to itself.
fn copy(operation: &str, stream: &Stream, send: &Tensor, recv: &Tensor) -> Result<()> {
    if send.num_elements() == recv.num_elements() && send.dtype() == recv.dtype() {
        return ops::copy_on(stream, send, recv);
    }
    Err(Error::invalid(
        format!("{operation} in a group of one rank"),
        format!("{send:?} and {recv:?}"),
        "two tensors of one type and length",
    ))
}

impl fmt::Debug for AxisGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AxisGroup({}, {} of {})",
            label(&self.axes),
            self.rank(),
            self.size()
        )
    }
}
