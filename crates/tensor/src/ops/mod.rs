//! Operations on tensors, queued on the device's compute stream; each checks its arguments and allocates its result.
//!
//! These have no gradients: [`autograd`](crate::autograd) and the layers are built on them. One file for each family
//! of the seam's kernels: [`matmul`](mod@matmul), [`elementwise`], [`norm`], [`attention`](mod@attention), [`loss`],
//! [`embedding`](mod@embedding), [`optimiser`], [`layout`].

pub mod attention;
pub mod elementwise;
pub mod embedding;
pub mod layout;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optimiser;

pub use attention::{attention, attention_backward, rope};
pub use elementwise::*;
pub use embedding::{embedding, embedding_backward};
pub use layout::{columns, copy, set_columns};
pub use matmul::{Transpose, matmul, matmul_batched, matmul_bias, matmul_gelu, matmul_into};

use crate::{Device, Tensor};
use hal::{DType, Error, Kernel, Result};

/// Queues a kernel whose arguments the caller has checked.
pub(crate) fn launch(
    device: &Device,
    reads: &[&Tensor],
    writes: &[&Tensor],
    kernel: Kernel,
) -> Result<()> {
    // Nothing to write is nothing to do, whatever the other sizes say.
    if writes.iter().all(|tensor| tensor.num_elements() == 0) {
        return Ok(());
    }
    device
        .compute()
        .queue(kernel.name(), reads, writes, |stream| {
            // SAFETY: the tensors are live, and storage keeps their memory until the stream has passed this kernel; types,
            // lengths and overlap were checked by the operation that made the kernel; other streams were waited for.
            unsafe { device.0.kernels.launch(stream, &kernel) }
        })
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

pub(crate) fn disjoint(operation: &str, out: &Tensor, inputs: &[&Tensor]) -> Result<()> {
    match inputs.iter().find(|input| input.overlaps(out)) {
        None => Ok(()),
        Some(input) => Err(Error::invalid(
            operation,
            format!("{out:?} overlapping {input:?}"),
            "a result of its own",
        )),
    }
}

// An elementwise kernel may write over an input of the same type, element for element, but not shifted.
pub(crate) fn same_or_disjoint(operation: &str, out: &Tensor, inputs: &[&Tensor]) -> Result<()> {
    let shifted: Vec<_> = inputs
        .iter()
        .copied()
        .filter(|input| input.raw() != out.raw())
        .collect();
    disjoint(operation, out, &shifted)
}
