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
        self.layers * (attention + mlp + 2 * norm)
            + norm
            + table
            + counted(!design.is_rotary(), self.context * h)
            + counted(!self.tied_head, table)
    }

    /// Flop of GEMMs and attention per token, forward and backward, as published figures count them: 6 for each
    /// weight of a GEMM, and 12 x layers x query features x context for attention, half of which is never computed.
    pub fn flop_per_token(&self) -> f64 {
        let (h, mlp) = (self.hidden, self.mlp_hidden());
        let (q, kv) = (self.query_width(), self.key_width());
        let mats = self.design().mlp_matrices();
        let weights =
            self.layers * (2 * h * q + 2 * h * kv + mats * h * mlp) + self.padded_vocabulary() * h;
        6.0 * weights as f64 + 12.0 * (self.layers * q * self.context) as f64
    }
}
