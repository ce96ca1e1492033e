//! What a rank reads of the others' buffers, and what it writes once every rank has read.

use super::{
    Member,
    meeting::{Key, Post},
    on_host,
};
use crate::{kernels::Module, stream::Core, table::Address};
use hal::{Collective, Counts, Kernel, RawSlice, ReduceOp, Result, kernel};

/// Queues the reads of one run. What cannot go to its place yet goes to the stream's scratch memory.
pub(super) struct Reads<'a> {
    core: &'a Core,
    member: &'a Member,
    scratch: Address,
}

/// What is left to do once every rank has read.
#[derive(Debug)]
pub(super) enum Finish {
    /// Store a sum in its place, in the type of the elements.
    Store { sum: RawSlice, out: RawSlice },
    /// Copy the host's result to its place.
    Upload { bytes: Vec<u8>, out: RawSlice },
}

const ALIGNMENT: usize = 256;

// Scratch for a sum, and for a copy of an addend from another device.
fn scratch_bytes(call: &Collective) -> usize {
    let sum = |len: usize, of: &RawSlice| {
        2 * (len * of.dtype.accumulator().bytes()).next_multiple_of(ALIGNMENT)
    };
    match call {
        Collective::AllReduce { buffer, .. } => sum(buffer.len, buffer),
        Collective::ReduceScatter { recv, .. } => sum(recv.len, recv),
        _ => 0,
    }
}

impl<'a> Reads<'a> {
    pub(super) fn new(
        core: &'a Core,
        member: &'a Member,
        calls: &[(Key, Collective)],
    ) -> Result<Reads<'a>> {
        // The kernels used here need no scratch of their own, so this stays theirs until the run has been queued.
        let bytes = calls.iter().map(|(_, call)| scratch_bytes(call)).sum();
        Ok(Reads {
            core,
            member,
            scratch: core.scratch(bytes)?,
        })
    }

    /// Queues the reads of one call.
    ///
    /// # Safety
    /// `posts` are those of every rank in `call`'s meeting, and agree; the stream waits for their buffers.
    pub(super) unsafe fn read(
        &mut self,
        call: &Collective,
        posts: &[Post],
    ) -> Result<Option<Finish>> {
        let rank = self.member.join.rank;
        if let Some(out) = on_host::result(call) {
            return Ok(Some(Finish::Upload {
                bytes: on_host::reduce(call, posts, rank),
                out,
            }));
        }
        match call {
            Collective::AllReduce { buffer, op } => {
                let addends = gathered(posts, in_place);
                // SAFETY: passed on from the caller, as in all arms.
                unsafe { self.sum(posts, &addends, *buffer, *op) }.map(Some)
            }
            Collective::ReduceScatter {
                recv, counts, op, ..
            } => {
                let own = |call: &Collective| given(call).map(|send| part(&send, counts, rank));
                // SAFETY: as above.
                unsafe { self.sum(posts, &gathered(posts, own), *recv, *op) }.map(Some)
            }
            Collective::AllGather { recv, counts, .. } => {
                let parts = gathered(posts, given).into_iter().enumerate();
                let parts = parts.map(|(from, send)| (part(recv, counts, from), send));
                // SAFETY: as above.
                unsafe { self.copy(parts) }
            }
            Collective::Broadcast { buffer, root } => {
                let of_root = gathered(posts, in_place)[*root];
                // SAFETY: as above.
                unsafe { self.copy([(*buffer, of_root)].into_iter()) }
            }
            Collective::AllToAll { recv, .. } => {
                let even = Counts::Even(recv.len / posts.len());
                let sends = gathered(posts, given).into_iter().enumerate();
                let parts =
                    sends.map(|(from, send)| (part(recv, &even, from), part(&send, &even, rank)));
                // SAFETY: as above.
                unsafe { self.copy(parts) }
            }
            Collective::Recv { buffer, .. } => {
                let sent = gathered(posts, in_place)[0];
                // SAFETY: as above.
                unsafe { self.copy([(*buffer, sent)].into_iter()) }
            }
            Collective::Send { .. } | Collective::Barrier => Ok(None),
        }
    }

    // Safety: the pairs are of equal length, live until the copies have run, and equal or disjoint.
    unsafe fn copy(
        &self,
        pairs: impl Iterator<Item = (RawSlice, RawSlice)>,
    ) -> Result<Option<Finish>> {
        for (dst, src) in pairs.filter(|(dst, src)| dst.addr != src.addr) {
            // SAFETY: passed on from the caller.
            unsafe { self.core.copy(dst.addr, src.addr, dst.bytes()) }?;
        }
        Ok(None)
    }

    // Adds in the order of ranks. Safety: the addends are as long as `out` and live until the work has run.
    unsafe fn sum(
        &mut self,
        posts: &[Post],
        addends: &[RawSlice],
        out: RawSlice,
        op: ReduceOp,
    ) -> Result<Finish> {
        let (sum, copy) = (self.take(&out), self.take(&out));
        for (index, (post, addend)) in posts
            .iter()
            .zip(addends)
            .enumerate()
            .filter(|_| out.len > 0)
        {
            let mut x = *addend;
            if post.ordinal != self.member.context.ordinal {
                // A kernel reads its own device's memory only.
                x.addr = copy.addr;
                // SAFETY: passed on from the caller; the copy lies in scratch of this stream.
                unsafe { self.core.copy(x.addr, addend.addr, x.bytes()) }?;
            }
            let beta = if index == 0 { 0.0 } else { 1.0 };
            let add = Kernel::Axpby(kernel::Axpby {
                x,
                y: sum,
                alpha: 1.0,
                beta,
            });
            // SAFETY: as above; `sum` lies in scratch of this stream and is as long.
            unsafe { self.member.module.launch(self.core, &add) }?;
        }
        if op == ReduceOp::Avg && out.len > 0 {
            let divide = Kernel::Axpby(kernel::Axpby {
                x: sum,
                y: sum,
                alpha: 1.0 / addends.len() as f64,
                beta: 0.0,
            });
            // SAFETY: as above; the kernel reads an element before it writes it.
            unsafe { self.member.module.launch(self.core, &divide) }?;
        }
        Ok(Finish::Store { sum, out })
    }

    // Scratch for as many elements, in the accumulator's type.
    fn take(&mut self, like: &RawSlice) -> RawSlice {
        let slice = RawSlice {
            addr: self.scratch,
            len: like.len,
            dtype: like.dtype.accumulator(),
        };
        self.scratch += slice.bytes().next_multiple_of(ALIGNMENT) as u64;
        slice
    }
}

impl Finish {
    /// Queues the write.
    ///
    /// # Safety
    /// The stream waits for every rank that reads the destination.
    pub(super) unsafe fn write(&self, core: &Core, module: &Module) -> Result<()> {
        match self {
            // SAFETY: passed on from the caller, as in all arms; lengths are those of the call.
            Finish::Upload { bytes, out } => unsafe { core.upload(out.addr, bytes) },
            Finish::Store { out, .. } if out.len == 0 => Ok(()),
            Finish::Store { sum, out } if sum.dtype == out.dtype => {
                // SAFETY: as above.
                unsafe { core.copy(out.addr, sum.addr, out.bytes()) }
            }
            Finish::Store { sum, out } => {
                let cast = Kernel::Cast(kernel::Cast { x: *sum, out: *out });
                // SAFETY: as above.
                unsafe { module.launch(core, &cast) }
            }
        }
    }
}

fn gathered(posts: &[Post], slice: impl Fn(&Collective) -> Option<RawSlice>) -> Vec<RawSlice> {
    posts
        .iter()
        .filter_map(|post| post.call.as_ref().and_then(&slice))
        .collect()
}

fn part(whole: &RawSlice, counts: &Counts, rank: usize) -> RawSlice {
    whole.part(counts.before(rank), counts.of(rank))
}

fn in_place(call: &Collective) -> Option<RawSlice> {
    match call {
        Collective::AllReduce { buffer, .. }
        | Collective::Broadcast { buffer, .. }
        | Collective::Send { buffer, .. }
        | Collective::Recv { buffer, .. } => Some(*buffer),
        _ => None,
    }
}

/// The send buffer of a call that has one besides its receive buffer.
pub(super) fn given(call: &Collective) -> Option<RawSlice> {
    match call {
        Collective::ReduceScatter { send, .. }
        | Collective::AllGather { send, .. }
        | Collective::AllToAll { send, .. } => Some(*send),
        _ => None,
    }
}

/// Whether kernels do the reduction: they do for sums and averages of floats.
pub(super) fn by_kernels(buffer: &RawSlice, op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Sum | ReduceOp::Avg) && buffer.dtype.is_float()
}
