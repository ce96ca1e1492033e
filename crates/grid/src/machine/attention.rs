//! The time of attention: in one kernel that never holds the scores, or by GEMMs that store them.
//!
//! Attention that stores its scores writes the sequence x sequence scores of every head to memory, and every
//! step after that reads them again. Its GEMMs compute the full square, including what the mask discards.
//! Source: Korthikanti et al. 2022 (arXiv 2205.05198), which also names the recomputation of this part alone.

use super::{
    file::Machine,
    gemm::{GemmShape, Variant},
};

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

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSize<'a> {
    /// Query heads of all sequences together.
    pub heads: usize,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Element type.
    pub dtype: &'a str,
    /// Bytes of an element.
    pub element_bytes: usize,
}

impl AttentionSize<'_> {
    /// Bytes of scores and probabilities, if they are stored.
    pub fn stored_bytes(&self) -> usize {
        2 * self.score_bytes()
    }

    fn score_bytes(&self) -> usize {
        self.heads * self.sequence * self.sequence * self.element_bytes
    }
}

impl Machine {
    /// Seconds of attention on an otherwise idle device, forward or backward.
    pub fn attention(&self, size: &AttentionSize<'_>, form: AttentionForm, backward: bool) -> f64 {
        match (form, backward) {
            (AttentionForm::Fused, _) => self.fused(size, backward),
            (AttentionForm::Recomputed, true) => self.stored(size, false) + self.stored(size, true),
            _ => self.stored(size, backward),
        }
    }

    // Two GEMMs over the causal half forward; five backward, where the scores are computed again.
    fn fused(&self, size: &AttentionSize<'_>, backward: bool) -> f64 {
        let pairs = size.heads as f64 * (size.sequence as f64).powi(2) / 2.0;
        let product = 2.0 * pairs * size.head_size as f64;
        let (products, share) = match backward {
            false => (2.0, self.device.attention.forward.value),
            true => (5.0, self.device.attention.backward.value),
        };
        products * product / (self.device.peak(size.dtype) * share)
    }

    // Forward: scores and output. Backward: the gradient of the probabilities, then of values, queries and keys.
    // The softmax, which scales and masks, reads scores and writes probabilities; its gradient reads the
    // probabilities and their gradient, and writes that of the scores.
    fn stored(&self, size: &AttentionSize<'_>, backward: bool) -> f64 {
        let (outputs, passes) = if backward { (3.0, 3.0) } else { (1.0, 2.0) };
        let softmax =
            passes * size.score_bytes() as f64 / self.device.kernel_bandwidth("softmax", "norm");
        let scores = self.of_heads(size, size.sequence, size.head_size);
        let output = self.of_heads(size, size.head_size, size.sequence);
        scores + outputs * output + softmax
    }

    // One GEMM for each head, whose tiles share the device. All read or write the scores once.
    fn of_heads(&self, size: &AttentionSize<'_>, n: usize, k: usize) -> f64 {
        let vectors = 2 * size.heads * size.sequence * size.head_size * size.element_bytes;
        let shape = GemmShape {
            m: size.heads * size.sequence,
            n,
            k,
            dtype: size.dtype,
            variant: Variant::Nn,
            bytes: vectors + size.score_bytes(),
        };
        self.product.seconds(&shape, &self.device, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(sequence: usize) -> AttentionSize<'static> {
        AttentionSize {
            heads: 16,
            sequence,
            head_size: 128,
            dtype: "bf16",
            element_bytes: 2,
        }
    }

    #[test]
    fn stored_scores_cost_memory_traffic() {
        let machine = Machine::find("selene").unwrap();
        let of = |form, backward| machine.attention(&size(2048), form, backward);
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
        assert_eq!(size(2048).stored_bytes(), 2 * 16 * 2048 * 2048 * 2);
    }

    #[test]
    fn recomputation_adds_a_forward_to_backward() {
        let machine = Machine::find("selene").unwrap();
        let of = |form, backward| machine.attention(&size(1024), form, backward);
        let again = of(AttentionForm::Recomputed, true) - of(AttentionForm::Stored, true);
        let forward = of(AttentionForm::Stored, false);
        assert!((again / forward - 1.0).abs() < 1e-9, "{again} {forward}");
        assert_eq!(of(AttentionForm::Recomputed, false), forward);
    }
}
