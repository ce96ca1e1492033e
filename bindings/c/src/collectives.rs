//! Collectives on a caller's buffers.

use crate::{
    groups::Group,
    memory::{self, handle, on_stream, tensor},
    status::{Status, guarded},
};
use library::{
    collective::AxisGroup,
    hal::{DType, Error, Result},
    tensor::{Stream, Tensor},
};
use std::ffi::{c_int, c_void};

/// Reduces over all ranks, in place.
///
/// # Safety
/// `group` is null or a live handle; the buffer and the stream are as `fascicle.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_all_reduce(
    group: *const Group,
    buffer: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    stream: *mut c_void,
) -> Status {
    let work = |group: &AxisGroup, stream: &Stream, tensor: &Tensor| {
        group.all_reduce_on(stream, tensor, memory::op(op)?)
    };
    // SAFETY: the caller's guarantee.
    unsafe { in_place(group, (buffer, count, dtype), stream, work) }
}

/// Every rank receives the elements of `root`.
///
/// # Safety
/// As [`fascicle_all_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_broadcast(
    group: *const Group,
    buffer: *mut c_void,
    count: usize,
    dtype: c_int,
    root: usize,
    stream: *mut c_void,
) -> Status {
    let work = |group: &AxisGroup, stream: &Stream, tensor: &Tensor| {
        group.broadcast_on(stream, tensor, root)
    };
    // SAFETY: the caller's guarantee.
    unsafe { in_place(group, (buffer, count, dtype), stream, work) }
}

/// Sends a message.
///
/// # Safety
/// As [`fascicle_all_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_send(
    group: *const Group,
    buffer: *const c_void,
    count: usize,
    dtype: c_int,
    to: usize,
    stream: *mut c_void,
) -> Status {
    let work =
        |group: &AxisGroup, stream: &Stream, tensor: &Tensor| group.send_on(stream, tensor, to);
    // SAFETY: the caller's guarantee.
    unsafe { in_place(group, (buffer.cast_mut(), count, dtype), stream, work) }
}

/// Receives a message.
///
/// # Safety
/// As [`fascicle_all_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_recv(
    group: *const Group,
    buffer: *mut c_void,
    count: usize,
    dtype: c_int,
    from: usize,
    stream: *mut c_void,
) -> Status {
    let work =
        |group: &AxisGroup, stream: &Stream, tensor: &Tensor| group.recv_on(stream, tensor, from);
    // SAFETY: the caller's guarantee.
    unsafe { in_place(group, (buffer, count, dtype), stream, work) }
}

/// Rank i receives the sum of the i-th parts.
///
/// # Safety
/// As [`fascicle_all_reduce`]; `counts` is null or has a number for each rank of the group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_reduce_scatter(
    group: *const Group,
    send: *const c_void,
    recv: *mut c_void,
    recv_count: usize,
    counts: *const usize,
    dtype: c_int,
    stream: *mut c_void,
) -> Status {
    let run: PartsRun = (|total, own| (total, own), AxisGroup::reduce_scatter_on);
    // SAFETY: the caller's guarantee.
    unsafe {
        of_parts(
            group,
            (send, recv),
            (recv_count, counts),
            dtype,
            stream,
            run,
        )
    }
}

/// Every rank receives the concatenation of all `send`.
///
/// # Safety
/// As [`fascicle_reduce_scatter`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_all_gather(
    group: *const Group,
    send: *const c_void,
    send_count: usize,
    recv: *mut c_void,
    counts: *const usize,
    dtype: c_int,
    stream: *mut c_void,
) -> Status {
    let run: PartsRun = (|total, own| (own, total), AxisGroup::all_gather_on);
    // SAFETY: the caller's guarantee.
    unsafe {
        of_parts(
            group,
            (send, recv),
            (send_count, counts),
            dtype,
            stream,
            run,
        )
    }
}

/// Rank j receives the j-th part of every rank's `send`.
///
/// # Safety
/// As [`fascicle_all_reduce`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fascicle_all_to_all(
    group: *const Group,
    send: *const c_void,
    recv: *mut c_void,
    part_count: usize,
    dtype: c_int,
    stream: *mut c_void,
) -> Status {
    // SAFETY: the caller's guarantee.
    unsafe {
        moved(group, (send, recv), dtype, stream, |group| {
            let total = total(group, None, part_count)?;
            let run: Run = |group, stream, send, recv, _| group.all_to_all_on(stream, send, recv);
            Ok(Call {
                lengths: (total, total),
                parts: None,
                run,
            })
        })
    }
}

/// # Safety
/// As [`fascicle_all_reduce`].
unsafe fn in_place(
    group: *const Group,
    (buffer, count, number): (*mut c_void, usize, c_int),
    stream: *mut c_void,
    work: impl FnOnce(&AxisGroup, &Stream, &Tensor) -> Result<()>,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let group = unsafe { &handle("group", group)?.0 };
        let context = group.context();
        // SAFETY: the caller's guarantee.
        let tensor = unsafe { tensor(context, memory::dtype(number)?, buffer, count) }?;
        // SAFETY: the caller's guarantee.
        unsafe { on_stream(context, stream, |stream| work(group, stream, &tensor)) }
    })
}

type Run = fn(&AxisGroup, &Stream, &Tensor, &Tensor, Option<&[usize]>) -> Result<()>;

/// The lengths of both buffers, from all ranks' elements and this rank's, and the collective.
type PartsRun = (fn(usize, usize) -> (usize, usize), Run);

/// # Safety
/// As [`fascicle_reduce_scatter`].
unsafe fn of_parts(
    group: *const Group,
    buffers: (*const c_void, *mut c_void),
    (own, counts): (usize, *const usize),
    dtype: c_int,
    stream: *mut c_void,
    (lengths, run): PartsRun,
) -> Status {
    let call = |group: &AxisGroup| {
        // SAFETY: the caller's guarantee.
        let parts = unsafe { parts(group, counts) };
        let total = total(group, parts.as_deref(), own)?;
        let lengths = lengths(total, own);
        Ok(Call {
            lengths,
            parts,
            run,
        })
    };
    // SAFETY: the caller's guarantee.
    unsafe { moved(group, buffers, dtype, stream, call) }
}

/// A collective from one buffer to another.
struct Call {
    lengths: (usize, usize),
    parts: Option<Vec<usize>>,
    run: Run,
}

/// # Safety
/// As [`fascicle_all_reduce`], for both buffers with the lengths that `call` finds.
unsafe fn moved(
    group: *const Group,
    (send, recv): (*const c_void, *mut c_void),
    number: c_int,
    stream: *mut c_void,
    call: impl FnOnce(&AxisGroup) -> Result<Call>,
) -> Status {
    guarded(|| {
        // SAFETY: the caller's guarantee.
        let group = unsafe { &handle("group", group)?.0 };
        let (context, dtype): (_, DType) = (group.context(), memory::dtype(number)?);
        let Call {
            lengths,
            parts,
            run,
        } = call(group)?;
        // SAFETY: the caller's guarantee.
        let send = unsafe { tensor(context, dtype, send, lengths.0) }?;
        // SAFETY: the caller's guarantee.
        let recv = unsafe { tensor(context, dtype, recv, lengths.1) }?;
        let work = |stream: &Stream| run(group, stream, &send, &recv, parts.as_deref());
        // SAFETY: the caller's guarantee.
        unsafe { on_stream(context, stream, work) }
    })
}

/// # Safety
/// `counts` is null or has a number for each rank of the group.
unsafe fn parts(group: &AxisGroup, counts: *const usize) -> Option<Vec<usize>> {
    // SAFETY: the caller's guarantee; not null where it is read.
    (!counts.is_null())
        .then(|| unsafe { std::slice::from_raw_parts(counts, group.size()) }.to_vec())
}

// The elements of all ranks together.
fn total(group: &AxisGroup, parts: Option<&[usize]>, own: usize) -> Result<usize> {
    let total = match parts {
        None => own.checked_mul(group.size()),
        Some(parts) => parts
            .iter()
            .try_fold(0usize, |sum, &part| sum.checked_add(part)),
    };
    total.ok_or_else(|| Error::invalid("counts", "more than 2^64 elements", "fewer"))
}
