//! Kernels and GEMMs: their memory is checked, and their cost advances the stream's clock.

use crate::{
    memory::AddressSpace,
    state::{Cost, Shared, Side},
    stream::SimStream,
    work::{Category, Label},
};
use hal::{
    Blas, Gemm, Kernel, Kernels, Operand, Result, Stream,
    kernel::{AttentionShape, pages::PAGE_TOKENS},
};
use std::sync::Arc;

/// The kernels and GEMMs of a device.
#[derive(Debug)]
pub(crate) struct SimKernels {
    pub(crate) shared: Arc<Shared>,
    pub(crate) side: Side,
}

// SAFETY: no memory is touched.
unsafe impl Kernels for SimKernels {
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()> {
        let lane = SimStream::index(stream, &self.shared)?;
        let mut state = self.shared.lock();
        let memory = state.memory_of(self.side);
        check(memory, kernel.name(), |visit| kernel.operands(visit))?;
        let scratch = self.shared.costs.scratch_bytes(kernel);
        state.memory.borrow_briefly(scratch)?;
        let (name, category) = (kernel.name(), Category::of(kernel));
        let label = Label {
            name,
            category,
            group: None,
            bytes: self.shared.costs.moved_bytes(kernel) as usize,
            flop: flop(kernel),
        };
        let cost = match self.side {
            Side::Device => Cost::Compute(self.shared.costs.kernel(kernel)),
            Side::Host => Cost::Copy(self.shared.costs.host_kernel(kernel)),
        };
        state.run(lane, label, cost)
    }
}

// SAFETY: no memory is touched.
unsafe impl Blas for SimKernels {
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        let lane = SimStream::index(stream, &self.shared)?;
        let mut state = self.shared.lock();
        let bytes = check(state.memory_of(self.side), "gemm", |visit| {
            gemm.operands(visit)
        })?;
        let flop = 2.0 * gemm.m as f64 * gemm.n as f64 * gemm.k as f64 * gemm.batch.count as f64;
        let label = Label {
            name: "gemm",
            category: Category::Matmuls,
            group: None,
            bytes,
            flop,
        };
        state.run(lane, label, Cost::Compute(self.shared.costs.gemm(gemm)))
    }
}

/// Checks that all operands lie in live memory, and returns their size in bytes.
///
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for the first one that does not.
pub(crate) fn check(
    memory: &AddressSpace,
    work: &str,
    operands: impl FnOnce(&mut dyn FnMut(Operand)),
) -> Result<usize> {
    let mut bytes = Ok(0);
    operands(&mut |operand| {
        if let Ok(sum) = &mut bytes {
            *sum += operand.slice.bytes();
            if let Err(error) = memory.check(work, &operand.slice) {
                bytes = Err(error);
            }
        }
    });
    bytes
}

// Attention counts the pairs of queries and keys that meet, so the pieces of a cut attention add up to all of it. As in
// published totals, backward is four GEMMs: that it computes the scores again does not count.
fn flop(kernel: &Kernel) -> f64 {
    let product = |shape: &AttentionShape| {
        2.0 * shape.pairs() * (shape.sequences * shape.heads * shape.head_size) as f64
    };
    match kernel {
        Kernel::Custom(custom) => custom.cost().flop,
        Kernel::AttentionForward(attention) => 2.0 * product(&attention.shape),
        Kernel::AttentionBackward(attention) => 4.0 * product(&attention.shape),
        // Of all keys that the table has room for.
        Kernel::PagedAttention(paged) => {
            let shape = &paged.shape;
            let of_each = shape.of_sequence(PAGE_TOKENS * shape.table_pages, 0);
            2.0 * shape.sequences as f64 * product(&of_each)
        }
        Kernel::QuantisedMatmul(product) => {
            2.0 * (product.rows * product.part.rows * product.part.columns) as f64
        }
        _ => 0.0,
    }
}
