//! Lowers a kernel value to the launches that compute it: a pure function that needs no device.
//!
//! `launch` holds the plain types. Every device function takes one structure by value; its Rust mirror, the choice of
//! grid and block, and the function's name stand together in one file for each family, as the functions themselves do
//! under `kernels/`. A kernel may need scratch memory between two of its launches: [`workspace_bytes`] says how much.

mod attention;
mod attention_join;
mod attention_order;
mod attention_paged;
mod attention_params;
mod attention_tiles;
mod batch;
mod coded;
mod columns;
mod documents;
mod dropout;
mod elementwise;
mod embedding;
mod exact_squares;
mod factored;
mod gemm;
mod launch;
mod layout;
pub mod layouts;
mod lines;
mod loss;
mod muon;
pub mod name;
mod norm;
mod norm_full;
mod optimiser;
mod pages;
mod parts;
mod quantised;
mod quantised_matmul;
mod rope;
mod rows;
mod shape;
mod squares;
mod transpose;

pub use gemm::{gemm, gemm_workspace};
pub use launch::{DeviceTraits, Launch};
pub use transpose::{Stored, transpose};

use hal::{Kernel, Result};

/// The launches that compute `kernel`, in order, on one stream.
///
/// `workspace` is the address of [`workspace_bytes`] bytes of scratch, aligned to 256, that no other work uses until
/// the launches have run; its contents are arbitrary before and after.
///
/// # Errors
/// [`Error::Unsupported`](hal::Error::Unsupported) for an element type that no device function takes, and for a
/// custom kernel, which brings its code; [`Error::Invalid`](hal::Error::Invalid) for a size beyond the device's limits.
pub fn lower(kernel: &Kernel, traits: &DeviceTraits, workspace: u64) -> Result<Vec<Launch>> {
    match kernel {
        Kernel::Fill(args) => elementwise::fill(args, traits),
        Kernel::Cast(args) => elementwise::cast(args, traits),
        Kernel::Axpby(args) => elementwise::axpby(args, traits),
        Kernel::Binary(args) => elementwise::binary(args, traits),
        Kernel::Unary(args) => elementwise::unary(args, traits),
        Kernel::UnaryBackward(args) => elementwise::unary_backward(args, traits),
        Kernel::Swiglu(args) => elementwise::swiglu(args, traits),
        Kernel::SwigluBackward(args) => elementwise::swiglu_backward(args, traits),
        Kernel::AddBias(args) => columns::add_bias(args, traits),
        Kernel::ColumnSum(args) => columns::column_sum(args, traits, workspace),
        Kernel::Dropout(args) => dropout::dropout(args, traits),
        Kernel::RowSum(args) => rows::row_sum(args, traits),
        Kernel::Softmax(args) => rows::softmax(args, traits),
        Kernel::SoftmaxBackward(args) => rows::softmax_backward(args, traits),
        Kernel::NormForward(args) => norm_full::forward(args, traits),
        Kernel::NormBackward(args) => norm_full::backward(args, traits, workspace),
        Kernel::Moments(args) => norm::moments(args, traits),
        Kernel::CombineMoments(args) => norm::combine_moments(args, traits),
        Kernel::Normalize(args) => norm::normalize(args, traits),
        Kernel::NormalizeSums(args) => norm::normalize_sums(args, traits, workspace),
        Kernel::NormalizeBackward(args) => norm::normalize_backward(args, traits),
        Kernel::Rope(args) => rope::rope(args, traits),
        Kernel::AttentionForward(args) => attention::forward(args, traits),
        Kernel::AttentionBackward(args) => attention::backward(args, traits, workspace),
        Kernel::AttentionJoin(args) => attention_join::join(args, traits),
        Kernel::SoftmaxStatistics(args) => loss::softmax_statistics(args, traits),
        Kernel::CombineSoftmax(args) => loss::combine_softmax(args, traits),
        Kernel::CrossEntropyBackward(args) => loss::cross_entropy_backward(args, traits),
        Kernel::EmbeddingForward(args) => embedding::embedding_forward(args, traits),
        Kernel::EmbeddingBackward(args) => embedding::embedding_backward(args, traits, workspace),
        Kernel::Documents(args) => documents::documents(args, traits),
        Kernel::StorePages(args) => pages::store(args, traits),
        Kernel::LoadPages(args) => pages::load(args, traits),
        Kernel::PagedAttention(args) => attention_paged::attention(args, traits, workspace),
        Kernel::Dequantise(args) => quantised::dequantise(args, traits),
        Kernel::QuantisedMatmul(args) => quantised_matmul::quantised_matmul(args, traits),
        Kernel::SumSquares(args) => squares::sum_squares(args, traits, workspace),
        Kernel::Largest(args) => exact_squares::largest(args, traits, workspace),
        Kernel::ExactSquares(args) => exact_squares::exact_squares(args, traits, workspace),
        Kernel::ExactTotal(args) => exact_squares::exact_total(args, traits),
        Kernel::ClipScale(args) => squares::clip_scale(args, traits),
        Kernel::AdamW(args) => optimiser::adamw(args, traits),
        Kernel::Sgd(args) => optimiser::sgd(args, traits),
        Kernel::Lion(args) => optimiser::lion(args, traits),
        Kernel::CodedScales(args) => coded::coded_scales(args, traits),
        Kernel::CodedAdamW(args) => coded::coded_adamw(args, traits),
        Kernel::LineLargest(args) => lines::line_largest(args, traits),
        Kernel::LineSquares(args) => lines::line_squares(args, traits),
        Kernel::FactorMeans(args) => factored::factor_means(args, traits),
        Kernel::FactorDirections(args) => factored::factor_directions(args, traits),
        Kernel::ClipDirections(args) => Ok(factored::clip_directions(args, traits)),
        Kernel::Momentum(args) => muon::momentum(args, traits),
        Kernel::UnitNorm(args) => muon::unit_norm(args, traits),
        Kernel::Copy2d(args) => columns::copy_2d(args, traits),
        Kernel::CopyStrided(args) => layout::copy_strided(args, traits),
        Kernel::SelectRows(args) => layout::select_rows(args, traits),
        Kernel::Custom(args) => Err(traits.without_code(args.kernel.name())),
    }
}

/// Bytes of scratch memory that the launches of `kernel` need; 0 for most.
pub fn workspace_bytes(kernel: &Kernel, traits: &DeviceTraits) -> usize {
    match kernel {
        Kernel::ColumnSum(args) => columns::column_sum_workspace(args),
        Kernel::NormBackward(args) => norm_full::backward_workspace(args, traits),
        Kernel::NormalizeSums(args) => norm::normalize_sums_workspace(args),
        Kernel::AttentionBackward(args) => attention::backward_workspace(args),
        Kernel::PagedAttention(args) => attention_paged::workspace(args),
        Kernel::EmbeddingBackward(args) => embedding::embedding_backward_workspace(args),
        Kernel::SumSquares(args) => squares::sum_squares_workspace(args),
        Kernel::Largest(args) => exact_squares::largest_workspace(args),
        Kernel::ExactSquares(args) => exact_squares::exact_squares_workspace(args),
        _ => 0,
    }
}
