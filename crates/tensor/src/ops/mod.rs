//! Operations on tensors, queued on the device's compute stream; each checks its arguments and allocates its
//! result.
//!
//! These have no gradients: [`autograd`](crate::autograd) and the layers build on them. Each family of the
//! seam's kernels has a file: [`matmul`](mod@matmul), [`elementwise`], [`norm`], [`attention`](mod@attention),
//! [`loss`], [`embedding`](mod@embedding), [`documents`], [`pages`], [`quantised`], [`optimiser`], [`coded`], [`factored`], [`layout`], [`dims`], [`rows`]; and
//! [`custom`](fn@custom) is for custom kernels.
//!
//! # Errors
//! Each operation lists the arguments that it refuses. Besides these, any operation may return [`Error::Invalid`] for
//! tensors of several devices, [`Error::Unsupported`] for an element type that the device lacks,
//! [`Error::OutOfMemory`] for its result, [`Error::Vendor`], and the failure of earlier work on its tensors.

pub mod attention;
pub mod coded;
mod custom;
pub mod dims;
pub mod documents;
pub mod elementwise;
pub mod embedding;
pub mod factored;
pub mod layout;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optimiser;
pub mod pages;
pub mod quantised;
pub mod rows;

pub use attention::{attention, attention_backward, attention_join, rope, rope_at};
pub use custom::{
    Custom, CustomArguments, CustomCost, CustomKernel, CustomNumber, DeviceCode, custom,
};
pub use dims::{concat, expand, one_hot, permute, slice};
pub use documents::{document_starts, places_in_documents};
pub use elementwise::*;
pub use embedding::{embedding, embedding_backward};
pub use layout::{columns, columns_into, copy, copy_on, set_columns};
pub use matmul::{
    Transpose, matmul, matmul_batched, matmul_bias, matmul_gelu, matmul_into, matmul_node_into,
    matmul_variant,
};
pub use rows::{row_sum, select_rows, softmax, softmax_backward};

use crate::{Arguments, Device, Stream, Tensor};
use hal::{DType, Error, Kernel, Result};

/// Queues a kernel made of these arguments, whose sizes and types the caller has checked.
///
/// # Errors
/// [`Error::Invalid`] for tensors of several devices, and if a written one overlaps another.
pub(crate) fn launch(arguments: &mut Arguments<'_>, kernel: Kernel) -> Result<()> {
    let compute = arguments.device().map(Device::compute);
    compute.map_or(Ok(()), |stream| launch_on(&stream, arguments, kernel))
}

/// As [`launch`], on another stream than that of compute.
///
/// # Errors
/// As there.
pub(crate) fn launch_on(
    stream: &Stream,
    arguments: &mut Arguments<'_>,
    kernel: Kernel,
) -> Result<()> {
    arguments.name(kernel.name(), |visit| kernel.operands(visit));
    arguments.check_overlap(kernel.name())?;
    // With nothing to write there is nothing to do, whatever the other sizes are.
    let Some(device) = arguments.device().filter(|_| arguments.written_bytes() > 0) else {
        return Ok(());
    };
    // SAFETY: the kernel's operands are the tensors of `arguments` (asserted above), which are live and on this device. Their
    // storage keeps the memory until the stream has passed this kernel. The operation that made the kernel checked types
    // and lengths; overlap is checked above.
    unsafe { stream.launch(device, arguments, &kernel) }
}

pub(crate) fn same_type(operation: &str, first: &Tensor, others: &[&Tensor]) -> Result<()> {
    match others.iter().find(|other| other.dtype() != first.dtype()) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(
            operation,
            format!("{first:?} with {other:?}"),
            "one element type",
        )),
    }
}

pub(crate) fn same_length(operation: &str, first: &Tensor, others: &[&Tensor]) -> Result<()> {
    match others
        .iter()
        .find(|other| other.num_elements() != first.num_elements())
    {
        None => Ok(()),
        Some(other) => Err(Error::invalid(
            operation,
            format!("{first:?} with {other:?}"),
            "equal lengths",
        )),
    }
}

pub(crate) fn same_shape(operation: &str, first: &Tensor, others: &[&Tensor]) -> Result<()> {
    match others.iter().find(|other| other.shape() != first.shape()) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(
            operation,
            format!("{first:?} with {other:?}"),
            "equal shapes",
        )),
    }
}

pub(crate) fn holds(
    operation: &str,
    what: &str,
    tensor: &Tensor,
    count: usize,
    dtype: DType,
) -> Result<()> {
    if tensor.num_elements() == count && tensor.dtype() == dtype {
        return Ok(());
    }
    Err(Error::invalid(
        operation,
        format!("{what} {tensor:?}"),
        format!("{count} elements of {dtype}"),
    ))
}

pub(crate) fn float(operation: &str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype().is_float() {
        true => Ok(()),
        false => Err(Error::invalid(
            operation,
            format!("{tensor:?}"),
            "a float type",
        )),
    }
}
