//! Kernels and products: their memory is checked, and their cost moves the stream's clock.

use crate::{
    slices,
    state::{Cost, Shared},
    work::{Category, Label},
};
use hal::{Blas, Gemm, Kernel, Kernels, Result, Stream, kernel::AttentionShape};
use std::sync::Arc;

/// The kernels and the products of a device.
#[derive(Debug)]
pub(crate) struct SimKernels {
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: no memory is touched.
unsafe impl Kernels for SimKernels {
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()> {
        let lane = self.shared.index("stream", stream.raw().0)?;
        let mut state = self.shared.lock();
        let mut bytes = 0;
        slices::each(kernel, |slice| {
            bytes += slice.bytes();
            state.memory.check(kernel.name(), slice)
        })?;
        let (name, category) = (kernel.name(), Category::of(kernel));
        let label = Label {
            name,
            category,
            group: None,
            bytes,
            flop: flop(kernel),
        };
        state.run(lane, label, Cost::Compute(self.shared.costs.kernel(kernel)))
    }
}

// SAFETY: no memory is touched.
unsafe impl Blas for SimKernels {
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        let lane = self.shared.index("stream", stream.raw().0)?;
        let mut state = self.shared.lock();
        let matrices = [&gemm.a.data, &gemm.b.data, &gemm.c.data];
        matrices
            .iter()
            .try_for_each(|matrix| state.memory.check("gemm", matrix))?;
        let bytes = matrices.iter().map(|matrix| matrix.bytes()).sum();
        let flop = 2.0 * gemm.m as f64 * gemm.n as f64 * gemm.k as f64 * gemm.batch.count as f64;
        let label = Label {
            name: "gemm",
            category: Category::Products,
            group: None,
            bytes,
            flop,
        };
        state.run(lane, label, Cost::Compute(self.shared.costs.gemm(gemm)))
    }
}

// Attention counts as published totals do: the whole score matrix, also where the mask leaves half of it out.
fn flop(kernel: &Kernel) -> f64 {
    let product = |shape: &AttentionShape| {
        let tokens = shape.sequences as f64 * shape.sequence as f64;
        2.0 * tokens * shape.sequence as f64 * (shape.heads * shape.head_size) as f64
    };
    match kernel {
        Kernel::AttentionForward(attention) => 2.0 * product(&attention.shape),
        Kernel::AttentionBackward(attention) => 4.0 * product(&attention.shape),
        _ => 0.0,
    }
}
