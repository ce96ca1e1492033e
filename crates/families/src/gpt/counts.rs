//! Numbers that follow from the sizes: weights and operations.

use super::GptConfig;
use parallel::layers::norm::NormKind;

impl GptConfig {
    /// Number of weights; those of a tied head count once.
    pub fn num_parameters(&self) -> usize {
        let (h, mlp) = (self.hidden, self.mlp_hidden());
        let (q, kv) = (self.query_width(), self.key_width());
        let design = self.design();
        let counted = |is_there: bool, weights: usize| if is_there { weights } else { 0 };
        let norm = h + counted(design.norm == NormKind::Layer, h);
        let attention = 2 * h * q
            + 2 * h * kv
            + counted(self.has_qkv_bias(), q + 2 * kv)
            + counted(design.biases, h)
            + counted(self.qk_norm, 2 * self.head_size());
        let mlp = design.mlp_matrices() * h * mlp + counted(design.biases, mlp + h);
        let table = self.padded_vocabulary() * h;
        let norms = if self.post_norms { 4 } else { 2 };
        self.layers * (attention + mlp + norms * norm)
            + norm
            + table
            + counted(!design.is_rotary(), self.context * h)
            + counted(!self.tied_head, table)
    }

    /// Flop of GEMMs and attention per token, forward and backward, as published figures count them: 6 for each
    /// weight of a GEMM, and 12 x layers x query features x context for attention, half of which is never computed. A window
    /// leaves less of both halves.
    pub fn flop_per_token(&self) -> f64 {
        let (h, mlp) = (self.hidden, self.mlp_hidden());
        let (q, kv) = (self.query_width(), self.key_width());
        let mats = self.design().mlp_matrices();
        let weights =
            self.layers * (2 * h * q + 2 * h * kv + mats * h * mlp) + self.padded_vocabulary() * h;
        let attended: f64 = (0..self.layers).map(|block| self.attended(block)).sum();
        6.0 * weights as f64 + 24.0 * q as f64 * attended
    }

    /// Tokens to which a token of a complete sequence attends in a block, on average, with half of its own.
    pub(super) fn attended(&self, block: usize) -> f64 {
        let context = self.context as f64;
        let window = self
            .window(block)
            .map_or(context, |window| context.min(window as f64));
        window - window * window / (2.0 * context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GptFamily;

    // The totals that their publishers state.
    #[test]
    fn published_models_have_as_many_weights() {
        let qwen3_8b = GptConfig {
            family: GptFamily::Llama,
            layers: 36,
            hidden: 4096,
            heads: 32,
            kv_heads: 8,
            head_size: 128,
            qk_norm: true,
            mlp_hidden: 12_288,
            vocabulary: 151_936,
            tied_head: false,
            ..GptConfig::default()
        };
        assert_eq!(qwen3_8b.num_parameters(), 8_190_735_360);
        let gemma_7b = GptConfig {
            family: GptFamily::Gemma,
            layers: 28,
            hidden: 3072,
            heads: 16,
            head_size: 256,
            vocabulary: 256_000,
            ..GptConfig::default()
        };
        assert_eq!(gemma_7b.num_parameters(), 8_537_680_896);
        let gemma3_1b = GptConfig {
            family: GptFamily::Gemma,
            layers: 26,
            hidden: 1152,
            heads: 4,
            kv_heads: 1,
            head_size: 256,
            qk_norm: true,
            post_norms: true,
            mlp_hidden: 6912,
            vocabulary: 262_144,
            ..GptConfig::default()
        };
        assert_eq!(gemma3_1b.num_parameters(), 999_885_952);
        let pythia_6_9b = GptConfig {
            family: GptFamily::GptNeox,
            layers: 32,
            hidden: 4096,
            heads: 32,
            rotary_size: 32,
            parallel_residual: true,
            vocabulary: 50_432,
            tied_head: false,
            ..GptConfig::default()
        };
        assert_eq!(pythia_6_9b.num_parameters(), 6_857_302_016);
    }
}
