//! The reference kernels: [`hal::kernel`] specifies what each computes, and this module how.
//!
//! [`simd`] compiles a loop for the processor's vectors, [`memory`] and [`block`] form the loop that every
//! kernel runs, and [`reduce`] and [`tree`] fix the order of every sum. Then each family has a file. A result depends on
//! sizes and on the processor's arithmetic, never on the number of threads: threads share outputs, not sums.

mod activation;
mod attention_join;
pub(crate) mod block;
mod coded;
mod coder;
mod columns;
mod dispatch;
mod documents;
mod dropout;
mod elementwise;
mod embedding;
mod exact_squares;
mod factored;
mod gauss;
mod layout;
mod lines;
mod lion;
mod loss;
pub(crate) mod memory;
mod moments;
mod muon;
mod norm;
mod norm_backward;
mod optimiser;
mod pages;
mod peak;
mod quantised;
mod reduce;
mod rope;
mod rows;
pub(crate) mod simd;
mod squares;
#[cfg(test)]
mod tests;
mod tree;

use crate::{attention, matmul, pool::Pool};
use hal::{Kernel, Result, kernel::Custom};

/// Runs a kernel to its end on the threads of `pool`.
///
/// # Safety
/// The contract of [`hal::Kernels::launch`], for host memory: every slice is live, has the type and length that
/// the kernel's documentation requires, overlaps others only where that documentation allows it, and is used by
/// nothing else meanwhile.
/// # Errors
/// [`hal::Error::Unsupported`] for an element type that the kernel does not take.
pub(crate) unsafe fn execute(kernel: &Kernel, pool: &Pool) -> Result<()> {
    // SAFETY: one of these runs, under the caller's own promise.
    unsafe {
        match kernel {
            Kernel::Fill(args) => elementwise::fill(args, pool),
            Kernel::Cast(args) => elementwise::cast(args, pool),
            Kernel::Axpby(args) => elementwise::axpby(args, pool),
            Kernel::Binary(args) => elementwise::binary(args, pool),
            Kernel::Unary(args) => activation::unary(args, pool),
            Kernel::UnaryBackward(args) => activation::unary_backward(args, pool),
            Kernel::Swiglu(args) => activation::swiglu(args, pool),
            Kernel::SwigluBackward(args) => activation::swiglu_backward(args, pool),
            Kernel::AddBias(args) => columns::add_bias(args, pool),
            Kernel::ColumnSum(args) => columns::column_sum(args, pool),
            Kernel::Dropout(args) => dropout::dropout(args, pool),
            Kernel::RowSum(args) => rows::row_sum(args, pool),
            Kernel::Softmax(args) => rows::softmax(args, pool),
            Kernel::SoftmaxBackward(args) => rows::softmax_backward(args, pool),
            Kernel::NormForward(args) => norm::norm_forward(args, pool),
            Kernel::NormBackward(args) => norm_backward::norm_backward(args, pool),
            Kernel::Moments(args) => norm::moments(args, pool),
            Kernel::CombineMoments(args) => norm::combine_moments(args),
            Kernel::Normalize(args) => norm::normalize(args, pool),
            Kernel::NormalizeSums(args) => norm_backward::normalize_sums(args, pool),
            Kernel::NormalizeBackward(args) => norm_backward::normalize_backward(args, pool),
            Kernel::Rope(args) => rope::rope(args, pool),
            Kernel::AttentionForward(args) => attention::forward(args, pool),
            Kernel::AttentionBackward(args) => attention::backward(args, pool),
            Kernel::AttentionJoin(args) => attention_join::join(args, pool),
            Kernel::SoftmaxStatistics(args) => loss::softmax_statistics(args, pool),
            Kernel::CombineSoftmax(args) => loss::combine_softmax(args),
            Kernel::CrossEntropyBackward(args) => loss::cross_entropy_backward(args, pool),
            Kernel::EmbeddingForward(args) => embedding::embedding_forward(args, pool),
            Kernel::EmbeddingBackward(args) => embedding::embedding_backward(args, pool),
            Kernel::SumSquares(args) => squares::sum_squares(args, pool),
            Kernel::Largest(args) => exact_squares::largest(args, pool),
            Kernel::ExactSquares(args) => exact_squares::exact_squares(args, pool),
            Kernel::ExactTotal(args) => exact_squares::exact_total(args),
            Kernel::ClipScale(args) => squares::clip_scale(args),
            Kernel::AdamW(args) => optimiser::adamw(args, pool),
            Kernel::Sgd(args) => optimiser::sgd(args, pool),
            Kernel::Lion(args) => lion::lion(args, pool),
            Kernel::CodedScales(args) => coded::coded_scales(args, pool),
            Kernel::CodedAdamW(args) => coded::coded_adamw(args, pool),
            Kernel::LineLargest(args) => lines::line_largest(args, pool),
            Kernel::LineSquares(args) => lines::line_squares(args, pool),
            Kernel::FactorMeans(args) => factored::factor_means(args),
            Kernel::FactorDirections(args) => factored::factor_directions(args, pool),
            Kernel::ClipDirections(args) => factored::clip_directions(args),
            Kernel::Momentum(args) => muon::momentum(args, pool),
            Kernel::UnitNorm(args) => muon::unit_norm(args, pool),
            Kernel::Copy2d(args) => layout::copy_2d(args, pool),
            Kernel::CopyStrided(args) => layout::copy_strided(args, pool),
            Kernel::Documents(args) => {
                documents::documents(args, pool);
                Ok(())
            }
            Kernel::StorePages(args) => pages::store(args, pool),
            Kernel::LoadPages(args) => pages::load(args, pool),
            Kernel::PagedAttention(args) => attention::paged(args, pool),
            Kernel::Dequantise(args) => quantised::dequantise(args, pool),
            Kernel::QuantisedMatmul(args) => matmul::quantised(args, pool),
            Kernel::SelectRows(args) => layout::select_rows(args, pool),
            Kernel::Custom(args) => custom(args),
        }
    }
}

/// # Safety
/// As for [`execute`].
unsafe fn custom(args: &Custom) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let outcome = unsafe { args.run_on_host() };
    outcome.unwrap_or_else(|| Err(dispatch::unsupported(args.kernel.name(), None)))
}
