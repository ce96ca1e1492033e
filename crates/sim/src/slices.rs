//! The memory that a kernel names.

use hal::{Kernel, RawSlice, Result};

/// Visits every slice that the kernel reads or writes.
///
/// # Errors
/// The first one of `visit`.
pub(crate) fn each(kernel: &Kernel, mut visit: impl FnMut(&RawSlice) -> Result<()>) -> Result<()> {
    let mut all = |slices: &[&RawSlice]| slices.iter().try_for_each(|slice| visit(slice));
    match kernel {
        Kernel::Fill(k) => all(&[&k.out]),
        Kernel::Cast(k) => all(&[&k.x, &k.out]),
        Kernel::Axpby(k) => all(&[&k.x, &k.y]),
        Kernel::Binary(k) => all(&[&k.a, &k.b, &k.out]),
        Kernel::Unary(k) => all(&[&k.x, &k.out]),
        Kernel::UnaryBackward(k) => all(&[&k.x, &k.d_out, &k.d_x]),
        Kernel::Swiglu(k) => all(&[&k.gate, &k.up, &k.out]),
        Kernel::SwigluBackward(k) => all(&[&k.gate, &k.up, &k.d_out, &k.d_gate, &k.d_up]),
        Kernel::AddBias(k) => all(&[&k.x, &k.bias]),
        Kernel::ColumnSum(k) => all(&[&k.x, &k.out]),
        Kernel::Dropout(k) => all(&[&k.x, &k.out]),
        Kernel::Moments(k) => all(&[&k.x, &k.moments]),
        Kernel::CombineMoments(k) => all(&[&k.parts, &k.moments]),
        Kernel::Normalize(k) => {
            all(&[&k.x, &k.moments, &k.gain, &k.out]).and_then(|()| all(k.bias.as_ref().as_slice()))
        }
        Kernel::NormalizeSums(k) => all(&[&k.x, &k.moments, &k.gain, &k.d_out, &k.sums, &k.d_gain])
            .and_then(|()| all(k.d_bias.as_ref().as_slice())),
        Kernel::NormalizeBackward(k) => {
            all(&[&k.x, &k.moments, &k.gain, &k.d_out, &k.sums, &k.d_x])
        }
        Kernel::Rope(k) => all(&[&k.x, &k.out]),
        Kernel::AttentionForward(k) => all(&[&k.q, &k.k, &k.v, &k.out, &k.log_sum_exp]),
        Kernel::AttentionBackward(k) => all(&[
            &k.q,
            &k.k,
            &k.v,
            &k.out,
            &k.log_sum_exp,
            &k.d_out,
            &k.d_q,
            &k.d_k,
            &k.d_v,
        ]),
        Kernel::SoftmaxStatistics(k) => all(&[&k.logits, &k.targets, &k.statistics]),
        Kernel::CombineSoftmax(k) => all(&[&k.parts, &k.targets, &k.log_sum_exp, &k.loss]),
        Kernel::CrossEntropyBackward(k) => all(&[&k.logits, &k.targets, &k.log_sum_exp, &k.d_loss]),
        Kernel::EmbeddingForward(k) => all(&[&k.table, &k.ids, &k.out]),
        Kernel::EmbeddingBackward(k) => all(&[&k.d_out, &k.ids, &k.d_table]),
        Kernel::SumSquares(k) => k
            .slices
            .iter()
            .try_for_each(|slice| all(&[slice]))
            .and_then(|()| all(&[&k.out])),
        Kernel::ClipScale(k) => all(&[&k.sum_squares, &k.out]),
        Kernel::AdamW(k) => k
            .tensors
            .iter()
            .try_for_each(|t| {
                all(&[&t.weights, &t.gradients, &t.first, &t.second])
                    .and_then(|()| all(t.compute.as_ref().as_slice()))
            })
            .and_then(|()| all(&[&k.factor])),
        Kernel::Sgd(k) => k
            .tensors
            .iter()
            .try_for_each(|t| {
                all(&[&t.weights, &t.gradients])
                    .and_then(|()| all(t.velocity.as_ref().as_slice()))
                    .and_then(|()| all(t.compute.as_ref().as_slice()))
            })
            .and_then(|()| all(&[&k.factor])),
        Kernel::Copy2d(k) => all(&[&k.src, &k.dst]),
    }
}
