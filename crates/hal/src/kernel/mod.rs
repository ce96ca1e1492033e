//! The kernels that a vendor offers, as plain descriptions.
//!
//! A kernel is a value: what to compute, on which memory, of which sizes. One enum lists them all, so that a
//! vendor dispatches in one place, a simulated vendor computes costs in one place, and a trace names them in
//! one place. Each family has a file: [`elementwise`], [`rows`], [`norm`], [`attention`], [`rope`],
//! [`pages`], [`loss`], [`embedding`], [`documents`], [`quantised`], [`optimiser`], [`coded`], [`factored`], [`muon`], [`layout`]; and [`custom`] is for custom kernels.
//!
//! Throughout, matrices are row-major and dense (`rows x columns`), and arithmetic uses the accumulator of the
//! element type. An `out` may be the same slice as one input of equal type where the kernel is elementwise, and
//! overlaps nothing otherwise.

pub mod attention;
pub mod coded;
pub mod custom;
pub mod documents;
pub mod elementwise;
pub mod embedding;
pub mod factored;
pub mod layout;
pub mod loss;
pub mod muon;
pub mod norm;
pub mod optimiser;
pub mod pages;
pub mod quantised;
pub mod rope;
pub mod rows;

pub use attention::{
    AttentionBackward, AttentionDropout, AttentionForward, AttentionJoin, AttentionShape,
};
pub use coded::{CodedAdamW, CodedAdamWTensor, CodedScales, CodedScalesTensor};
pub use custom::{Custom, CustomArguments, CustomCost, CustomKernel, CustomNumber, DeviceCode};
pub use documents::Documents;
pub use elementwise::{
    AddBias, Axpby, Binary, BinaryOp, Cast, ColumnSum, Dropout, Fill, Region, Swiglu,
    SwigluBackward, Unary, UnaryBackward, UnaryOp,
};
pub use embedding::{EmbeddingBackward, EmbeddingForward};
pub use factored::{
    ClipDirections, ClipDirectionsTensor, FactorDirections, FactorDirectionsTensor, FactorMeans,
    FactorMeansTensor, LineLargest, LineLargestTensor, LinePlace, LineSquares, LineSquaresTensor,
};
pub use layout::{Copy2d, CopyStrided, SelectRows};
pub use loss::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics};
pub use muon::{Momentum, MomentumTensor, UnitNorm};
pub use norm::{
    CombineMoments, Moments, NormBackward, NormForward, NormKind, NormShape, Normalize,
    NormalizeBackward, NormalizeSums,
};
pub use optimiser::{
    AdamW, AdamWTensor, ClipScale, ExactSquares, ExactTotal, Largest, Lion, LionTensor, Sgd,
    SgdTensor, SumSquares,
};
pub use pages::{LoadPages, PageShape, PagedAttention, PagedShape, StorePages};
pub use quantised::{Dequantise, QuantisedMatmul};
pub use rope::{Rope, RotaryFrequencies, RotaryStretch};
pub use rows::{RowSum, Softmax, SoftmaxBackward};

use crate::{Operand, Result, Stream};
use std::fmt;

/// A kernel and its arguments.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "each variant is its argument's documented struct"
)]
pub enum Kernel {
    Fill(Fill),
    Cast(Cast),
    Axpby(Axpby),
    Binary(Binary),
    Unary(Unary),
    UnaryBackward(UnaryBackward),
    Swiglu(Swiglu),
    SwigluBackward(SwigluBackward),
    AddBias(AddBias),
    ColumnSum(ColumnSum),
    Dropout(Dropout),
    RowSum(RowSum),
    Softmax(Softmax),
    SoftmaxBackward(SoftmaxBackward),
    NormForward(NormForward),
    NormBackward(NormBackward),
    Moments(Moments),
    CombineMoments(CombineMoments),
    Normalize(Normalize),
    NormalizeSums(NormalizeSums),
    NormalizeBackward(NormalizeBackward),
    Rope(Rope),
    AttentionForward(AttentionForward),
    AttentionBackward(AttentionBackward),
    AttentionJoin(AttentionJoin),
    SoftmaxStatistics(SoftmaxStatistics),
    CombineSoftmax(CombineSoftmax),
    CrossEntropyBackward(CrossEntropyBackward),
    EmbeddingForward(EmbeddingForward),
    EmbeddingBackward(EmbeddingBackward),
    Documents(Documents),
    StorePages(StorePages),
    LoadPages(LoadPages),
    PagedAttention(PagedAttention),
    Dequantise(Dequantise),
    QuantisedMatmul(QuantisedMatmul),
    SumSquares(SumSquares),
    Largest(Largest),
    ExactSquares(ExactSquares),
    ExactTotal(ExactTotal),
    ClipScale(ClipScale),
    AdamW(AdamW),
    Sgd(Sgd),
    Lion(Lion),
    CodedScales(CodedScales),
    CodedAdamW(CodedAdamW),
    LineLargest(LineLargest),
    LineSquares(LineSquares),
    FactorMeans(FactorMeans),
    FactorDirections(FactorDirections),
    ClipDirections(ClipDirections),
    Momentum(Momentum),
    UnitNorm(UnitNorm),
    Copy2d(Copy2d),
    CopyStrided(CopyStrided),
    SelectRows(SelectRows),
    Custom(Custom),
}

impl Kernel {
    /// Name in traces and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Fill(_) => "fill",
            Kernel::Cast(_) => "cast",
            Kernel::Axpby(_) => "axpby",
            Kernel::Binary(_) => "binary",
            Kernel::Unary(_) => "unary",
            Kernel::UnaryBackward(_) => "unary_backward",
            Kernel::Swiglu(_) => "swiglu",
            Kernel::SwigluBackward(_) => "swiglu_backward",
            Kernel::AddBias(_) => "add_bias",
            Kernel::ColumnSum(_) => "column_sum",
            Kernel::Dropout(_) => "dropout",
            Kernel::RowSum(_) => "row_sum",
            Kernel::Softmax(_) => "softmax",
            Kernel::SoftmaxBackward(_) => "softmax_backward",
            Kernel::NormForward(_) => "norm_forward",
            Kernel::NormBackward(_) => "norm_backward",
            Kernel::Moments(_) => "norm_moments",
            Kernel::CombineMoments(_) => "norm_combine",
            Kernel::Normalize(_) => "normalize",
            Kernel::NormalizeSums(_) => "normalize_sums",
            Kernel::NormalizeBackward(_) => "normalize_backward",
            Kernel::Rope(_) => "rope",
            Kernel::AttentionForward(_) => "attention_forward",
            Kernel::AttentionBackward(_) => "attention_backward",
            Kernel::AttentionJoin(_) => "attention_join",
            Kernel::SoftmaxStatistics(_) => "softmax_statistics",
            Kernel::CombineSoftmax(_) => "softmax_combine",
            Kernel::CrossEntropyBackward(_) => "cross_entropy_backward",
            Kernel::EmbeddingForward(_) => "embedding_forward",
            Kernel::EmbeddingBackward(_) => "embedding_backward",
            Kernel::Documents(_) => "documents",
            Kernel::StorePages(_) => "store_pages",
            Kernel::LoadPages(_) => "load_pages",
            Kernel::PagedAttention(_) => "paged_attention",
            Kernel::Dequantise(_) => "dequantise",
            Kernel::QuantisedMatmul(_) => "quantised_matmul",
            Kernel::SumSquares(_) => "sum_squares",
            Kernel::Largest(_) => "largest",
            Kernel::ExactSquares(_) => "exact_squares",
            Kernel::ExactTotal(_) => "exact_total",
            Kernel::ClipScale(_) => "clip_scale",
            Kernel::AdamW(_) => "adamw",
            Kernel::Sgd(_) => "sgd",
            Kernel::Lion(_) => "lion",
            Kernel::CodedScales(_) => "coded_scales",
            Kernel::CodedAdamW(_) => "coded_adamw",
            Kernel::LineLargest(_) => "line_largest",
            Kernel::LineSquares(_) => "line_squares",
            Kernel::FactorMeans(_) => "factor_means",
            Kernel::FactorDirections(_) => "factor_directions",
            Kernel::ClipDirections(_) => "clip_directions",
            Kernel::Momentum(_) => "momentum",
            Kernel::UnitNorm(_) => "unit_norm",
            Kernel::Copy2d(_) => "copy_2d",
            Kernel::CopyStrided(_) => "copy_strided",
            Kernel::SelectRows(_) => "select_rows",
            Kernel::Custom(args) => args.kernel.name(),
        }
    }

    /// Visits everything that the kernel reads and writes, in the order of its fields.
    pub fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        match self {
            Kernel::Fill(args) => args.operands(visit),
            Kernel::Cast(args) => args.operands(visit),
            Kernel::Axpby(args) => args.operands(visit),
            Kernel::Binary(args) => args.operands(visit),
            Kernel::Unary(args) => args.operands(visit),
            Kernel::UnaryBackward(args) => args.operands(visit),
            Kernel::Swiglu(args) => args.operands(visit),
            Kernel::SwigluBackward(args) => args.operands(visit),
            Kernel::AddBias(args) => args.operands(visit),
            Kernel::ColumnSum(args) => args.operands(visit),
            Kernel::Dropout(args) => args.operands(visit),
            Kernel::RowSum(args) => args.operands(visit),
            Kernel::Softmax(args) => args.operands(visit),
            Kernel::SoftmaxBackward(args) => args.operands(visit),
            Kernel::NormForward(args) => args.operands(visit),
            Kernel::NormBackward(args) => args.operands(visit),
            Kernel::Moments(args) => args.operands(visit),
            Kernel::CombineMoments(args) => args.operands(visit),
            Kernel::Normalize(args) => args.operands(visit),
            Kernel::NormalizeSums(args) => args.operands(visit),
            Kernel::NormalizeBackward(args) => args.operands(visit),
            Kernel::Rope(args) => args.operands(visit),
            Kernel::AttentionForward(args) => args.operands(visit),
            Kernel::AttentionBackward(args) => args.operands(visit),
            Kernel::AttentionJoin(args) => args.operands(visit),
            Kernel::SoftmaxStatistics(args) => args.operands(visit),
            Kernel::CombineSoftmax(args) => args.operands(visit),
            Kernel::CrossEntropyBackward(args) => args.operands(visit),
            Kernel::EmbeddingForward(args) => args.operands(visit),
            Kernel::EmbeddingBackward(args) => args.operands(visit),
            Kernel::Documents(args) => args.operands(visit),
            Kernel::StorePages(args) => args.operands(visit),
            Kernel::LoadPages(args) => args.operands(visit),
            Kernel::PagedAttention(args) => args.operands(visit),
            Kernel::Dequantise(args) => args.operands(visit),
            Kernel::QuantisedMatmul(args) => args.operands(visit),
            Kernel::SumSquares(args) => args.operands(visit),
            Kernel::Largest(args) => args.operands(visit),
            Kernel::ExactSquares(args) => args.operands(visit),
            Kernel::ExactTotal(args) => args.operands(visit),
            Kernel::ClipScale(args) => args.operands(visit),
            Kernel::AdamW(args) => args.operands(visit),
            Kernel::Sgd(args) => args.operands(visit),
            Kernel::Lion(args) => args.operands(visit),
            Kernel::CodedScales(args) => args.operands(visit),
            Kernel::CodedAdamW(args) => args.operands(visit),
            Kernel::LineLargest(args) => args.operands(visit),
            Kernel::LineSquares(args) => args.operands(visit),
            Kernel::FactorMeans(args) => args.operands(visit),
            Kernel::FactorDirections(args) => args.operands(visit),
            Kernel::ClipDirections(args) => args.operands(visit),
            Kernel::Momentum(args) => args.operands(visit),
            Kernel::UnitNorm(args) => args.operands(visit),
            Kernel::Copy2d(args) => args.operands(visit),
            Kernel::CopyStrided(args) => args.operands(visit),
            Kernel::SelectRows(args) => args.operands(visit),
            Kernel::Custom(args) => args.operands(visit),
        }
    }
}

/// A device's kernels.
///
/// # Safety
/// An implementation reads and writes only the memory that the arguments name.
pub unsafe trait Kernels: Send + Sync + fmt::Debug {
    /// Queues a kernel.
    ///
    /// # Safety
    /// Every slice is live until the kernel has run, has the type and length that the kernel's documentation
    /// requires, and overlaps others only where that documentation allows it. Ids and targets that index memory
    /// may hold any value; those out of range are skipped.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an element type, and for a custom kernel without code for
    /// this device; [`Error::Invalid`](crate::Error::Invalid) for a size that the device does not take, and for a
    /// stream of another vendor; [`Error::OutOfMemory`](crate::Error::OutOfMemory) for a workspace;
    /// [`Error::Vendor`](crate::Error::Vendor); the earlier failure of the stream; the error of a custom kernel's host
    /// function.
    unsafe fn launch(&self, stream: &dyn Stream, kernel: &Kernel) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, DType, RawSlice};

    fn slice(addr: u64) -> RawSlice {
        RawSlice {
            addr,
            len: 10,
            dtype: DType::F32,
        }
    }

    fn accesses(kernel: &Kernel) -> Vec<(u64, Access)> {
        let mut all = Vec::new();
        kernel.operands(&mut |operand| all.push((operand.slice.addr, operand.access)));
        all
    }

    #[test]
    fn operands_follow_the_arguments() {
        use Access::{Read, ReadWrite, Write};
        let axpby = |beta| {
            let (x, y, alpha) = (slice(0), slice(64), 1.0);
            Kernel::Axpby(Axpby { x, y, alpha, beta })
        };
        assert_eq!(accesses(&axpby(0.0)), [(0, Read), (64, Write)]);
        assert_eq!(accesses(&axpby(0.5)), [(0, Read), (64, ReadWrite)]);
        let tensor = |start, compute: Option<u64>| SgdTensor {
            weights: slice(start),
            gradients: slice(start + 64),
            velocity: None,
            compute: compute.map(slice),
            weight_decay: 0.0,
        };
        let sgd = Kernel::Sgd(Sgd {
            tensors: vec![tensor(0, None), tensor(128, Some(256))],
            factor: slice(512),
            rate: 1.0,
            momentum: 0.0,
        });
        let two = [(0, ReadWrite), (64, Read), (128, ReadWrite), (192, Read)];
        let rest = [(256, Write), (512, Read)];
        assert_eq!(accesses(&sgd), [&two[..], &rest].concat());
    }
}
