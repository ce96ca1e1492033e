//! Sizes and choices of a model.

use super::{Activation, DocumentEnd, GptFamily, RopeScaling, family::Design};
use serde::{Deserialize, Serialize};
use train::ModelConfig;

train::section! {
    /// Sizes and choices of a model.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct GptConfig {
        /// Which architecture.
        pub family: GptFamily,
        /// Number of transformer blocks.
        pub layers: usize,
        /// Width of the residual stream.
        pub hidden: usize,
        /// Query heads.
        pub heads: usize,
        /// Key and value heads; 0 means as many as query heads.
        pub kv_heads: usize,
        /// Elements of a head; 0 means the hidden size divided by the heads.
        pub head_size: usize,
        /// Whether queries, keys and values have biases in a family without others, as in Qwen 2; in GPT-2 and GPT-NeoX they
        /// always do.
        pub qkv_bias: bool,
        /// Whether each head of queries and keys is normalised by its root mean square, with one gain for all heads, as in Qwen 3.
        pub qk_norm: bool,
        /// Whether what attention and the MLP return is normalised before it is added to the residual, as in Gemma 2 and 3.
        pub post_norms: bool,
        /// Attention's scores are divided by the root of this; 0 means the elements of a head.
        pub score_size: usize,
        /// The bound that attention's scores approach, as in Gemma 2: score s becomes score_cap * tanh(s / score_cap). 0: they stay as
        /// they are.
        pub score_cap: f64,
        /// The bound that logits approach in the same way. 0: they stay as they are.
        pub logit_cap: f64,
        /// Width inside the MLP; 0 means 4 times the hidden size (GPT-2, GPT-NeoX), 8 times (Gemma), or 8/3 of it, rounded up to a
        /// multiple of 8 (Llama).
        pub mlp_hidden: usize,
        /// The function inside the MLP, of the gate where there is one; `family` means the tanh form of GELU (GPT-2, Gemma), GELU by
        /// its definition (GPT-NeoX) or SiLU (Llama).
        pub activation: Activation,
        /// Whether the MLP reads the same values as attention, so that a block computes x + attention(norm1(x)) + mlp(norm2(x)),
        /// as in Pythia, in place of one after the other.
        pub parallel_residual: bool,
        /// Tokens in a sequence.
        pub context: usize,
        /// Vocabulary size; 0 means that of the tokenizer.
        pub vocabulary: usize,
        /// Rows of the tables are padded to a multiple of this; padding never receives probability or gradient.
        pub pad_vocabulary_to: usize,
        /// Whether the head uses the embedding's table.
        pub tied_head: bool,
        /// The token with which a document ends, if a sequence holds several: attention then stays within a document, and
        /// learnt positions count from its first token. `none`: a sequence is one document.
        pub document_end: DocumentEnd,
        /// Fraction of activations and attention weights dropped in training.
        pub dropout: f64,
        /// Added to the variance in norms.
        pub norm_epsilon: f64,
        /// Base of rotary positions.
        pub rope_base: f64,
        /// Elements of each head that rotary positions turn, the first ones; 0 means all.
        pub rotary_size: usize,
        /// Stretches rotary positions, for a context beyond that of the first training: `none`, `linear:FACTOR`, or
        /// `llama3:FACTOR:LOW:HIGH:CONTEXT`, which leaves wavelengths below CONTEXT / HIGH tokens as they are.
        pub rope_scaling: RopeScaling,
        /// Tokens to which a token attends at most, its own and those right before it, as in Mistral: in the local blocks, or in
        /// all if `local_blocks` is 0. 0: all before it.
        pub sliding_window: usize,
        /// Local blocks in front of each one that is not, as in Gemma 2, where it is 1, and Gemma 3, where it is 5: they have windows, and
        /// rotary positions with `local_rope_base`, the others have `rope_base` and `rope_scaling`. 0: all blocks are alike.
        pub local_blocks: usize,
        /// Base of rotary positions in local blocks, which nothing stretches.
        pub local_rope_base: f64,
        /// Standard deviation of initial weights.
        pub init_deviation: f64,
    }
}

impl Default for GptConfig {
    fn default() -> Self {
        GptConfig {
            family: GptFamily::Gpt2,
            layers: 4,
            hidden: 128,
            heads: 8,
            kv_heads: 0,
            head_size: 0,
            qkv_bias: false,
            qk_norm: false,
            post_norms: false,
            score_size: 0,
            score_cap: 0.0,
            logit_cap: 0.0,
            mlp_hidden: 0,
            activation: Activation::Family,
            parallel_residual: false,
            context: 128,
            vocabulary: 0,
            pad_vocabulary_to: 1,
            tied_head: true,
            document_end: DocumentEnd::default(),
            dropout: 0.0,
            norm_epsilon: 1e-5,
            rope_base: 10_000.0,
            rotary_size: 0,
            rope_scaling: RopeScaling::None,
            sliding_window: 0,
            local_blocks: 0,
            local_rope_base: 10_000.0,
            init_deviation: 0.02,
        }
    }
}

impl GptConfig {
    /// What its family's blocks are made of.
    pub(super) fn design(&self) -> &'static Design {
        self.family.design()
    }

    /// Key and value heads.
    pub fn kv_heads(&self) -> usize {
        if self.kv_heads == 0 {
            self.heads
        } else {
            self.kv_heads
        }
    }

    /// Elements of a head.
    pub fn head_size(&self) -> usize {
        match self.head_size {
            0 => self.hidden / self.heads.max(1),
            size => size,
        }
    }

    /// Features of all query heads.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_size()
    }

    /// Features of all key heads, and of all value heads.
    pub fn key_width(&self) -> usize {
        self.kv_heads() * self.head_size()
    }

    /// Whether queries, keys and values have biases.
    pub fn has_qkv_bias(&self) -> bool {
        self.design().biases || self.qkv_bias
    }

    /// Elements of a head that rotary positions turn.
    pub fn rotary_size(&self) -> usize {
        match self.rotary_size {
            0 => self.head_size(),
            size => size,
        }
    }

    /// Whether a block is a local one.
    pub fn is_local(&self, block: usize) -> bool {
        !(block + 1).is_multiple_of(self.local_blocks + 1)
    }

    /// The tokens to which a token attends at most in a block; `None`: all before it.
    pub fn window(&self, block: usize) -> Option<usize> {
        let has_window = self.local_blocks == 0 || self.is_local(block);
        (self.sliding_window > 0 && has_window).then_some(self.sliding_window)
    }

    /// By the root of this, scores are divided.
    pub fn score_size(&self) -> usize {
        match self.score_size {
            0 => self.head_size(),
            size => size,
        }
    }

    /// The function inside the MLP; never that of the family by reference.
    pub fn activation(&self) -> Activation {
        match self.activation {
            Activation::Family => self.design().activation,
            own => own,
        }
    }

    /// Width inside the MLP.
    pub fn mlp_hidden(&self) -> usize {
        match self.mlp_hidden {
            0 => (self.design().mlp_hidden)(self.hidden),
            size => size,
        }
    }

    /// Rows of the tables over the vocabulary.
    pub fn padded_vocabulary(&self) -> usize {
        self.vocabulary
            .next_multiple_of(self.pad_vocabulary_to.max(1))
    }

    /// Number of segments for the pipeline: embedding, two halves of each block, head.
    pub fn num_segments(&self) -> usize {
        2 * self.layers + 2
    }
}

impl From<GptConfig> for ModelConfig {
    fn from(config: GptConfig) -> ModelConfig {
        ModelConfig::new(config)
    }
}
