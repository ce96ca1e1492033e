//! The bytes that each kernel reads and writes, and the flop of attention.

use hal::kernel::{AttentionShape, NormShape};
use hal::{DType, Kernel, RawSlice};

/// What a kernel has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Memory is what it waits for.
    Bytes(f64),
    /// Products within a kernel.
    Attention {
        bytes: f64,
        flop: f64,
        dtype: DType,
        backward: bool,
    },
}

/// The family that a machine's efficiencies name.
pub(super) const fn family(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Moments(_)
        | Kernel::CombineMoments(_)
        | Kernel::Normalize(_)
        | Kernel::NormalizeSums(_)
        | Kernel::NormalizeBackward(_) => "norm",
        Kernel::AttentionForward(_) | Kernel::AttentionBackward(_) => "attention",
        Kernel::SoftmaxStatistics(_)
        | Kernel::CombineSoftmax(_)
        | Kernel::CrossEntropyBackward(_) => "loss",
        Kernel::EmbeddingForward(_) | Kernel::EmbeddingBackward(_) => "embedding",
        Kernel::SumSquares(_) | Kernel::ClipScale(_) | Kernel::AdamW(_) | Kernel::Sgd(_) => {
            "optimiser"
        }
        Kernel::Copy2d(_) => "layout",
        _ => "elementwise",
    }
}

/// What a kernel has to do: every slice is read or written once, one that is updated counts twice.
pub(super) fn work(kernel: &Kernel) -> Work {
    let bytes = match kernel {
        Kernel::AttentionForward(call) => {
            let slices = [call.q, call.k, call.v, call.out, call.log_sum_exp];
            return attention(call.shape, call.q.dtype, &slices, false);
        }
        Kernel::AttentionBackward(call) => {
            let given = [
                call.q,
                call.k,
                call.v,
                call.out,
                call.log_sum_exp,
                call.d_out,
            ];
            let slices = [given.as_slice(), &[call.d_q, call.d_k, call.d_v]].concat();
            return attention(call.shape, call.q.dtype, &slices, true);
        }
        Kernel::Fill(call) => size(call.out),
        Kernel::Cast(call) => sizes(&[call.x, call.out]),
        Kernel::Axpby(call) => {
            sizes(&[call.x, call.y]) + if call.beta == 0.0 { 0.0 } else { size(call.y) }
        }
        Kernel::Binary(call) => sizes(&[call.a, call.b, call.out]),
        Kernel::Unary(call) => sizes(&[call.x, call.out]),
        Kernel::UnaryBackward(call) => sizes(&[call.x, call.d_out, call.d_x]),
        Kernel::Swiglu(call) => sizes(&[call.gate, call.up, call.out]),
        Kernel::SwigluBackward(call) => {
            sizes(&[call.gate, call.up, call.d_out, call.d_gate, call.d_up])
        }
        Kernel::AddBias(call) => 2.0 * size(call.x) + size(call.bias),
        Kernel::ColumnSum(call) => size(call.x) + 2.0 * size(call.out),
        Kernel::Dropout(call) => sizes(&[call.x, call.out]),
        Kernel::Rope(call) => sizes(&[call.x, call.out]),
        Kernel::Moments(call) => sizes(&[call.x, call.moments]),
        Kernel::CombineMoments(call) => sizes(&[call.parts, call.moments]),
        Kernel::Normalize(call) => {
            2.0 * matrix(&call.shape, call.x) + sizes(&[call.moments, call.gain])
        }
        Kernel::NormalizeSums(call) => {
            2.0 * matrix(&call.shape, call.x)
                + sizes(&[call.moments, call.gain, call.sums])
                + 2.0 * size(call.d_gain)
        }
        Kernel::NormalizeBackward(call) => {
            3.0 * matrix(&call.shape, call.x) + sizes(&[call.moments, call.gain, call.sums])
        }
        Kernel::SoftmaxStatistics(call) => sizes(&[call.logits, call.targets, call.statistics]),
        Kernel::CombineSoftmax(call) => sizes(&[call.parts, call.targets, call.log_sum_exp]),
        Kernel::CrossEntropyBackward(call) => {
            2.0 * size(call.logits) + sizes(&[call.targets, call.log_sum_exp])
        }
        Kernel::EmbeddingForward(call) => 2.0 * size(call.out) + size(call.ids),
        Kernel::EmbeddingBackward(call) => {
            let row = call.d_table.dtype.bytes() as f64 / call.d_out.dtype.bytes() as f64;
            size(call.d_out) * (1.0 + 2.0 * row) + size(call.ids)
        }
        Kernel::SumSquares(call) => sizes(&call.slices),
        Kernel::ClipScale(call) => sizes(&[call.sum_squares, call.out]),
        Kernel::AdamW(call) => call.tensors.iter().map(adamw).sum(),
        Kernel::Sgd(call) => call.tensors.iter().map(sgd).sum(),
        Kernel::Copy2d(call) => 2.0 * (call.rows * call.columns * call.src.dtype.bytes()) as f64,
    };
    Work::Bytes(bytes)
}

fn adamw(tensor: &hal::kernel::AdamWTensor) -> f64 {
    let updated = sizes(&[tensor.weights, tensor.first, tensor.second]);
    2.0 * updated + size(tensor.gradients) + tensor.compute.map_or(0.0, size)
}

fn sgd(tensor: &hal::kernel::SgdTensor) -> f64 {
    let velocity = tensor.velocity.map_or(0.0, size);
    2.0 * (size(tensor.weights) + velocity)
        + size(tensor.gradients)
        + tensor.compute.map_or(0.0, size)
}

// Two products over the causal half forward; five backward, where the scores are computed again.
fn attention(shape: AttentionShape, dtype: DType, slices: &[RawSlice], backward: bool) -> Work {
    let pairs =
        (shape.sequences * shape.heads * shape.sequence) as f64 * shape.sequence as f64 / 2.0;
    let product = 2.0 * pairs * shape.head_size as f64;
    let flop = product * if backward { 5.0 } else { 2.0 };
    Work::Attention {
        bytes: sizes(slices),
        flop,
        dtype,
        backward,
    }
}

fn matrix(shape: &NormShape, x: RawSlice) -> f64 {
    (shape.rows * shape.columns * x.dtype.bytes()) as f64
}

fn size(slice: RawSlice) -> f64 {
    (slice.len * slice.dtype.bytes()) as f64
}

fn sizes(slices: &[RawSlice]) -> f64 {
    slices.iter().map(|slice| size(*slice)).sum()
}
