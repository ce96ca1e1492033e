//! The bytes that each kernel reads and writes, and the sizes of attention.

use hal::kernel::{
    AttentionShape, CustomCost, LineSquaresTensor, PagedAttention, pages::PAGE_TOKENS,
};
use hal::{DType, Kernel, RawSlice};

/// The work of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Limited by memory bandwidth.
    Bytes(f64),
    /// A custom kernel of the program.
    Custom {
        bytes: f64,
        flop: f64,
        dtype: Option<DType>,
    },
    /// Attention, forward or backward.
    Attention {
        bytes: f64,
        shape: AttentionShape,
        dtype: DType,
        backward: bool,
    },
}

/// The family name under which a machine lists its efficiencies.
pub(super) const fn family(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::NormForward(_)
        | Kernel::NormBackward(_)
        | Kernel::Moments(_)
        | Kernel::CombineMoments(_)
        | Kernel::Normalize(_)
        | Kernel::NormalizeSums(_)
        | Kernel::NormalizeBackward(_)
        | Kernel::RowSum(_)
        | Kernel::Softmax(_)
        | Kernel::SoftmaxBackward(_) => "norm",
        Kernel::AttentionForward(_) | Kernel::AttentionBackward(_) | Kernel::PagedAttention(_) => {
            "attention"
        }
        Kernel::SoftmaxStatistics(_)
        | Kernel::CombineSoftmax(_)
        | Kernel::CrossEntropyBackward(_) => "loss",
        Kernel::EmbeddingForward(_) | Kernel::EmbeddingBackward(_) => "embedding",
        Kernel::SumSquares(_)
        | Kernel::Largest(_)
        | Kernel::ExactSquares(_)
        | Kernel::ExactTotal(_)
        | Kernel::ClipScale(_)
        | Kernel::AdamW(_)
        | Kernel::Sgd(_)
        | Kernel::Lion(_)
        | Kernel::CodedScales(_)
        | Kernel::CodedAdamW(_)
        | Kernel::LineLargest(_)
        | Kernel::LineSquares(_)
        | Kernel::FactorMeans(_)
        | Kernel::FactorDirections(_)
        | Kernel::ClipDirections(_)
        | Kernel::Momentum(_)
        | Kernel::UnitNorm(_) => "optimiser",
        Kernel::Copy2d(_) | Kernel::CopyStrided(_) | Kernel::SelectRows(_) => "layout",
        _ => "elementwise",
    }
}

/// The work of a kernel: every operand is read or written once, and an updated operand counts twice.
///
/// Kernels listed here move other bytes than their operands hold: rows looked up in a table, a block within a
/// matrix. A row or a single number beside a matrix is not counted.
pub(super) fn work(kernel: &Kernel) -> Work {
    let bytes = match kernel {
        Kernel::AttentionForward(call) => {
            return attention(kernel, call.shape, call.q.dtype, false);
        }
        Kernel::AttentionBackward(call) => {
            return attention(kernel, call.shape, call.q.dtype, true);
        }
        Kernel::PagedAttention(call) => return paged(call),
        Kernel::StorePages(call) => 4.0 * size(call.keys) + size(call.slots),
        Kernel::LoadPages(call) => 4.0 * size(call.keys) + size(call.slots),
        Kernel::Custom(call) => {
            let CustomCost { flop, bytes } = call.cost();
            let dtype = call.dtype();
            return Work::Custom { bytes, flop, dtype };
        }
        Kernel::NormForward(call) => moved(kernel) - call.bias.map_or(0.0, size),
        Kernel::NormBackward(call) => {
            moved(kernel) - call.d_bias.map_or(0.0, |bias| 2.0 * size(bias))
        }
        Kernel::Normalize(call) => moved(kernel) - call.bias.map_or(0.0, size),
        Kernel::NormalizeSums(call) => {
            moved(kernel) - call.d_bias.map_or(0.0, |bias| 2.0 * size(bias))
        }
        Kernel::CombineSoftmax(call) => moved(kernel) - 2.0 * size(call.loss),
        Kernel::CrossEntropyBackward(call) => moved(kernel) - size(call.d_loss),
        Kernel::EmbeddingForward(call) => 2.0 * size(call.out) + size(call.ids),
        Kernel::EmbeddingBackward(call) => {
            let row = call.d_table.dtype.bytes() as f64 / call.d_out.dtype.bytes() as f64;
            size(call.d_out) * (1.0 + 2.0 * row) + size(call.ids)
        }
        Kernel::SumSquares(call) => moved(kernel) - 2.0 * size(call.out),
        Kernel::Largest(call) => moved(kernel) - 2.0 * size(call.out),
        Kernel::ExactSquares(call) => moved(kernel) - 2.0 * size(call.sums) - size(call.largest),
        Kernel::AdamW(call) => moved(kernel) - size(call.factor),
        Kernel::Sgd(call) => moved(kernel) - size(call.factor),
        Kernel::Lion(call) => moved(kernel) - size(call.factor),
        Kernel::CodedScales(call) => moved(kernel) - size(call.factor),
        Kernel::CodedAdamW(call) => moved(kernel) - size(call.factor),
        // Rows and columns are two passes over the elements; the numbers of lines are few.
        Kernel::LineLargest(call) => {
            let tensors = call.tensors.iter();
            tensors
                .map(|tensor| passes(tensor.columns) * size(tensor.x))
                .sum()
        }
        Kernel::LineSquares(call) => {
            let tensors = call.tensors.iter();
            let bytes = |tensor: &LineSquaresTensor| passes(tensor.column_sums) * size(tensor.x);
            tensors.map(bytes).sum()
        }
        Kernel::FactorDirections(call) => {
            let tensors = call.tensors.iter();
            tensors.map(|tensor| 2.0 * size(tensor.gradients)).sum()
        }
        Kernel::Momentum(call) => moved(kernel) - size(call.factor),
        Kernel::UnitNorm(call) => moved(kernel) - size(call.sum_squares),
        Kernel::Copy2d(call) => 2.0 * (call.rows * call.columns * call.src.dtype.bytes()) as f64,
        // Repeated elements come from a cache.
        Kernel::CopyStrided(call) => size(call.dst) + size(call.src).min(size(call.dst)),
        Kernel::SelectRows(call) => 2.0 * size(call.out) + size(call.mask),
        _ => moved(kernel),
    };
    Work::Bytes(bytes)
}

fn moved(kernel: &Kernel) -> f64 {
    let mut bytes = 0;
    kernel.operands(&mut |operand| bytes += operand.moved_bytes());
    bytes as f64
}

fn attention(kernel: &Kernel, shape: AttentionShape, dtype: DType, backward: bool) -> Work {
    Work::Attention {
        bytes: moved(kernel),
        shape,
        dtype,
        backward,
    }
}

// Of all keys that the table has room for.
fn paged(call: &PagedAttention) -> Work {
    let shape = AttentionShape {
        sequences: call.shape.sequences,
        ..call
            .shape
            .of_sequence(PAGE_TOKENS * call.shape.table_pages, 0)
    };
    let page = (call.shape.pages.elements() * call.q.dtype.bytes()) as f64;
    Work::Attention {
        bytes: 2.0 * size(call.q) + 2.0 * page * call.table.len as f64,
        shape,
        dtype: call.q.dtype,
        backward: false,
    }
}

fn passes(columns: Option<RawSlice>) -> f64 {
    columns.map_or(1.0, |_| 2.0)
}

fn size(slice: RawSlice) -> f64 {
    slice.bytes() as f64
}
