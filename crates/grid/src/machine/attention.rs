//! The time of attention: in one kernel that never holds the scores, or by GEMMs that store them.
//!
//! Attention that stores its scores writes the queries x keys scores of every head to memory, and every step
//! after that reads them again. Its GEMMs compute all of them, including what the mask discards.
//! Source: Korthikanti et al. 2022 (arXiv 2205.05198), which also names the recomputation of this part alone.

use super::{
    file::Machine,
    gemm::{GemmShape, Variant},
};
use hal::{DType, kernel::AttentionShape};

/// How a program computes attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionForm {
    /// In one kernel, whose scores never leave the device's registers and shared memory.
    #[default]
    Fused,
    /// By GEMMs and a softmax, which keep scores and probabilities in memory until backward.
    Stored,
    /// As `Stored`, but backward first computes them again (selective recomputation).
    Recomputed,
}

/// Bytes of the scores and probabilities of an attention, if they are stored.
pub fn stored_attention_bytes(shape: &AttentionShape, dtype: DType) -> usize {
    2 * score_bytes(shape, dtype)
}

fn score_bytes(shape: &AttentionShape, dtype: DType) -> usize {
    shape.sequences * shape.heads * shape.queries * shape.keys * dtype.bytes()
}

impl Machine {
    /// Seconds of attention on an otherwise idle device, forward or backward.
    pub fn attention(
        &self,
        shape: &AttentionShape,
        dtype: DType,
        form: AttentionForm,
        backward: bool,
    ) -> f64 {
        let stored = |backward| self.stored(shape, dtype, backward);
        match (form, backward) {
            (AttentionForm::Fused, _) => self.fused(shape, dtype, backward),
            (AttentionForm::Recomputed, true) => stored(false) + stored(true),
            _ => stored(backward),
        }
    }

    // Two GEMMs over the pairs that meet forward; five backward, where the scores are computed again.
    fn fused(&self, shape: &AttentionShape, dtype: DType, backward: bool) -> f64 {
        let pairs = (shape.sequences * shape.heads) as f64 * shape.pairs();
        let product = 2.0 * pairs * shape.head_size as f64;
        let (products, share) = match backward {
            false => (2.0, self.device.attention.forward.value),
            true => (5.0, self.device.attention.backward.value),
        };
        products * product / (self.device.peak(dtype.name()) * share)
    }

    // Forward: scores and output. Backward: the gradient of the probabilities, then of values, queries and keys.
    // The softmax, which scales and masks, reads scores and writes probabilities; its gradient reads the
    // probabilities and their gradient, and writes that of the scores.
    fn stored(&self, shape: &AttentionShape, dtype: DType, backward: bool) -> f64 {
        let (outputs, passes) = if backward { (3.0, 3.0) } else { (1.0, 2.0) };
        let bandwidth = self.device.kernel_bandwidth("softmax", "norm");
        let softmax = passes * score_bytes(shape, dtype) as f64 / bandwidth;
        let scores = self.of_heads(shape, dtype, shape.keys, shape.head_size);
        let output = self.of_heads(shape, dtype, shape.head_size, shape.keys);
        scores + outputs * output + softmax
    }

    // One GEMM for each head, whose tiles share the device. All read or write the scores once, beside a vector per query
    // and one per key.
    fn of_heads(&self, shape: &AttentionShape, dtype: DType, n: usize, k: usize) -> f64 {
        let heads = shape.sequences * shape.heads;
        let vectors = heads * (shape.queries + shape.keys) * shape.head_size * dtype.bytes();
        let gemm = GemmShape {
            m: heads * shape.queries,
            n,
            k,
            dtype: dtype.name(),
            variant: Variant::Nn,
            bytes: vectors + score_bytes(shape, dtype),
        };
        self.product.seconds(&gemm, &self.device, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sequence: usize) -> AttentionShape {
        AttentionShape::causal(1, sequence, [16, 16, 128])
    }

    #[test]
    fn stored_scores_cost_memory_traffic() {
        let machine = Machine::find("selene").unwrap();
        let of = |form, backward| machine.attention(&shape(2048), DType::Bf16, form, backward);
        let bandwidth = machine.device.kernel_bandwidth("softmax", "norm");
        let pass = (16 * 2048 * 2048 * 2) as f64 / bandwidth;
        for backward in [false, true] {
            let (fused, stored) = (
                of(AttentionForm::Fused, backward),
                of(AttentionForm::Stored, backward),
            );
            let passes = if backward { 7.0 } else { 4.0 };
            assert!(stored > 1.5 * fused, "{stored} {fused}");
            assert!(stored > 0.9 * passes * pass, "{stored} {pass}");
        }
        let bytes = stored_attention_bytes(&shape(2048), DType::Bf16);
        assert_eq!(bytes, 2 * 16 * 2048 * 2048 * 2);
    }

    #[test]
    fn recomputation_adds_a_forward_to_backward() {
        let machine = Machine::find("selene").unwrap();
        let of = |form, backward| machine.attention(&shape(1024), DType::Bf16, form, backward);
        let again = of(AttentionForm::Recomputed, true) - of(AttentionForm::Stored, true);
        let forward = of(AttentionForm::Stored, false);
        assert!((again / forward - 1.0).abs() < 1e-9, "{again} {forward}");
        assert_eq!(of(AttentionForm::Recomputed, false), forward);
    }

    #[test]
    fn pieces_of_an_attention_cost_as_much_as_all_of_it() {
        let machine = Machine::find("selene").unwrap();
        let whole = shape(1024);
        // Two ranks, of half of the queries each: the second also has the keys of the first, as a block of its own.
        let half = shape(512);
        let block = AttentionShape {
            first_query: 512,
            ..half
        };
        for form in [AttentionForm::Fused, AttentionForm::Stored] {
            let of = |shape, backward| machine.attention(&shape, DType::Bf16, form, backward);
            for backward in [false, true] {
                let pieces = 2.0 * of(half, backward) + of(block, backward);
                let share = pieces / of(whole, backward);
                match form {
                    AttentionForm::Fused => assert!((share - 1.0).abs() < 1e-12, "{share}"),
                    // The whole alone computes the fourth quarter of the scores; smaller GEMMs are slower per score.
                    _ => assert!((0.75..1.0).contains(&share), "{share}"),
                }
            }
        }
    }
}
