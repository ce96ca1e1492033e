//! Expresses each collective in the library's calls.
//!
//! The library has no all-to-all and no collectives over uneven parts. A group of broadcasts, reductions or messages,
//! which it runs as one operation, takes their place.

use super::session::Session;
use crate::table::{Address, Handle};
use hal::{Collective, Counts, DType, RawSlice, ReduceOp, Result};
use rccl_sys::{
    Comm, DataType, REDUCE_AVG, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, Redop, Status, data_type,
    status,
};
use std::ffi::{c_int, c_void};

/// The communicator and the stream that calls go to.
pub(super) struct LibraryCall<'a> {
    pub(super) session: &'a Session,
    /// One number on the device, for barriers.
    pub(super) token: Address,
    pub(super) stream: Handle,
}

// One call through the table, inside a group or on its own.
macro_rules! call {
    ($self:ident, $comm:ident, $function:ident($($argument:expr),*)) => {{
        // SAFETY: the communicator and the stream are live; the caller of `run` vouches for the buffers.
        let status = unsafe { ($self.session.nccl.$function)($($argument,)* $comm, $self.stream()) };
        $self.begun(stringify!($function), status)?;
    }};
}

impl LibraryCall<'_> {
    /// Queues the collectives; several form a group.
    ///
    /// # Safety
    /// As for [`hal::Communicator::run`].
    pub(super) unsafe fn run(&self, collectives: &[Collective]) -> Result<()> {
        self.session.with(|comm| {
            let nccl = &self.session.nccl;
            // SAFETY: the call has no conditions; `ncclGroupEnd` follows below.
            let begun = unsafe { (nccl.ncclGroupStart)() };
            self.session.check("ncclGroupStart", begun)?;
            let queued = collectives
                .iter()
                .try_for_each(|collective| self.queue(comm, collective));
            // SAFETY: `ncclGroupStart` was called above; the group must end even after a failed call.
            let ended = unsafe { (nccl.ncclGroupEnd)() };
            queued?;
            self.session.settle(comm, "ncclGroupEnd", ended)
        })
    }

    fn stream(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.stream)
    }

    // Within a group, a call on a non-blocking communicator may return "in progress"; the end of the group settles it.
    fn begun(&self, call: &'static str, status: Status) -> Result<()> {
        if status == status::IN_PROGRESS {
            Ok(())
        } else {
            self.session.check(call, status)
        }
    }

    fn queue(&self, comm: Comm, collective: &Collective) -> Result<()> {
        match collective {
            Collective::AllReduce { buffer, op } => self.all_reduce(comm, *buffer, reduction(*op)),
            Collective::ReduceScatter {
                send,
                recv,
                counts: Counts::Even(_),
                op,
            } => {
                let (op, kind) = (reduction(*op), element(recv.dtype));
                call!(
                    self,
                    comm,
                    ncclReduceScatter(at(send), at(recv), recv.len, kind, op)
                );
                Ok(())
            }
            Collective::ReduceScatter {
                send,
                recv,
                counts,
                op,
            } => self.reduce_parts(comm, send, recv, counts, reduction(*op)),
            Collective::AllGather {
                send,
                recv,
                counts: Counts::Even(_),
            } => {
                call!(
                    self,
                    comm,
                    ncclAllGather(at(send), at(recv), send.len, element(send.dtype))
                );
                Ok(())
            }
            Collective::AllGather { send, recv, counts } => {
                self.gather_parts(comm, send, recv, counts)
            }
            Collective::Broadcast { buffer, root } => self.broadcast(comm, buffer, buffer, *root),
            Collective::AllToAll { send, recv } => self.all_to_all(comm, send, recv),
            Collective::Send { buffer, to } => self.send(comm, buffer, *to),
            Collective::Recv { buffer, from } => self.recv(comm, buffer, *from),
            Collective::Barrier => {
                let token = RawSlice {
                    addr: self.token,
                    len: 1,
                    dtype: DType::F32,
                };
                self.all_reduce(comm, token, REDUCE_SUM)
            }
        }
    }

    fn all_reduce(&self, comm: Comm, buffer: RawSlice, op: Redop) -> Result<()> {
        if buffer.len > 0 {
            call!(
                self,
                comm,
                ncclAllReduce(
                    at(&buffer),
                    at(&buffer),
                    buffer.len,
                    element(buffer.dtype),
                    op
                )
            );
        }
        Ok(())
    }

    fn broadcast(&self, comm: Comm, send: &RawSlice, recv: &RawSlice, root: usize) -> Result<()> {
        if recv.len > 0 {
            let kind = element(recv.dtype);
            call!(
                self,
                comm,
                ncclBroadcast(at(send), at(recv), recv.len, kind, root as c_int)
            );
        }
        Ok(())
    }

    fn send(&self, comm: Comm, buffer: &RawSlice, to: usize) -> Result<()> {
        if buffer.len > 0 {
            call!(
                self,
                comm,
                ncclSend(at(buffer), buffer.len, element(buffer.dtype), to as c_int)
            );
        }
        Ok(())
    }

    fn recv(&self, comm: Comm, buffer: &RawSlice, from: usize) -> Result<()> {
        if buffer.len > 0 {
            call!(
                self,
                comm,
                ncclRecv(at(buffer), buffer.len, element(buffer.dtype), from as c_int)
            );
        }
        Ok(())
    }

    // Part i is reduced to rank i.
    fn reduce_parts(
        &self,
        comm: Comm,
        send: &RawSlice,
        recv: &RawSlice,
        counts: &Counts,
        op: Redop,
    ) -> Result<()> {
        for root in (0..self.size()).filter(|&root| counts.of(root) > 0) {
            let part = send.part(counts.before(root), counts.of(root));
            // Only the root's receive buffer is written.
            let to = if root == self.rank() { recv } else { &part };
            let kind = element(part.dtype);
            call!(
                self,
                comm,
                ncclReduce(at(&part), at(to), part.len, kind, op, root as c_int)
            );
        }
        Ok(())
    }

    // Part i is broadcast by rank i.
    fn gather_parts(
        &self,
        comm: Comm,
        send: &RawSlice,
        recv: &RawSlice,
        counts: &Counts,
    ) -> Result<()> {
        (0..self.size()).try_for_each(|root| {
            let part = recv.part(counts.before(root), counts.of(root));
            let from = if root == self.rank() { send } else { &part };
            self.broadcast(comm, from, &part, root)
        })
    }

    fn all_to_all(&self, comm: Comm, send: &RawSlice, recv: &RawSlice) -> Result<()> {
        let count = send.len / self.size();
        (0..self.size()).try_for_each(|peer| {
            self.send(comm, &send.part(peer * count, count), peer)?;
            self.recv(comm, &recv.part(peer * count, count), peer)
        })
    }

    fn rank(&self) -> usize {
        self.session.join.rank
    }

    fn size(&self) -> usize {
        self.session.join.members.len()
    }
}

fn at(slice: &RawSlice) -> *mut c_void {
    std::ptr::without_provenance_mut(slice.addr as usize)
}

fn element(dtype: DType) -> DataType {
    match dtype {
        DType::F64 => data_type::FLOAT64,
        DType::F32 => data_type::FLOAT32,
        DType::Bf16 => data_type::BFLOAT16,
        DType::F16 => data_type::FLOAT16,
        DType::I32 => data_type::INT32,
        DType::U32 => data_type::UINT32,
        DType::U8 => data_type::UINT8,
    }
}

fn reduction(op: ReduceOp) -> Redop {
    match op {
        ReduceOp::Sum => REDUCE_SUM,
        ReduceOp::Avg => REDUCE_AVG,
        ReduceOp::Max => REDUCE_MAX,
        ReduceOp::Min => REDUCE_MIN,
    }
}
