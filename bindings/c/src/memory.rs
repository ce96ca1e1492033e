//! A caller's arguments: texts, handles, buffers and streams.

use library::hal::{DType, Error, ReduceOp, Result};
use library::parallel::Context;
use library::tensor::{Stream, Tensor};
use std::ffi::{CStr, c_char, c_int, c_void};

/// # Safety
/// `text` is null or ends with a zero byte, and lives during the call.
pub(crate) unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::invalid(name, "null", "a text"));
    }
    // SAFETY: the caller's guarantee; not null (checked above).
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Error::invalid(name, "bytes that are no UTF-8", "a text in UTF-8"))
}

/// # Safety
/// `handle` is null or a live handle of this library, used on the thread that made it.
pub(crate) unsafe fn handle<'a, T>(name: &str, handle: *const T) -> Result<&'a T> {
    // SAFETY: the caller's guarantee.
    unsafe { handle.as_ref() }.ok_or_else(|| Error::invalid(name, "null", "a handle"))
}

pub(crate) fn dtype(number: c_int) -> Result<DType> {
    let found = usize::try_from(number)
        .ok()
        .and_then(|index| DType::ALL.get(index));
    found
        .copied()
        .ok_or_else(|| Error::invalid("fascicle_dtype", number.to_string(), "a number from 0 to 6"))
}

pub(crate) fn op(number: c_int) -> Result<ReduceOp> {
    match number {
        0 => Ok(ReduceOp::Sum),
        1 => Ok(ReduceOp::Max),
        2 => Ok(ReduceOp::Min),
        3 => Ok(ReduceOp::Avg),
        _ => Err(Error::invalid(
            "fascicle_op",
            number.to_string(),
            "a number from 0 to 3",
        )),
    }
}

/// A tensor over a caller's buffer.
///
/// # Safety
/// `buffer` holds `count` initialised elements in memory of the device, and nothing else accesses them until the work on the tensor
/// has run.
pub(crate) unsafe fn tensor(
    context: &Context,
    dtype: DType,
    buffer: *const c_void,
    count: usize,
) -> Result<Tensor> {
    let address = buffer.expose_provenance() as u64;
    // SAFETY: the caller's guarantee; whoever calls this library keeps the buffer.
    unsafe { Tensor::from_memory(context.device(), dtype, &[count], address, None) }
}

/// Queues work on a caller's stream, or, without one, runs it and waits.
///
/// # Safety
/// `stream` is null or a stream of the device, in its primary context, that outlives the work.
pub(crate) unsafe fn on_stream(
    context: &Context,
    stream: *mut c_void,
    work: impl FnOnce(&Stream) -> Result<()>,
) -> Result<()> {
    let device = context.device();
    if stream.is_null() {
        let compute = device.compute();
        return work(&compute).and(compute.synchronize());
    }
    // SAFETY: the caller's guarantee.
    let theirs = unsafe { device.adopt_stream(stream.expose_provenance(), "the caller's") }?;
    work(&theirs)
}
