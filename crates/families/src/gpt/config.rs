//! Sizes and choices of a model.

use super::{
    DocumentEnd, Gpt, RopeScaling, published, stored,
    transformers::{Gpt2Format, LlamaFormat},
};
use grid::Demands;
use nn::Builder;
use parallel::Model;
use serde::{Deserialize, Serialize};
use std::{any::Any, sync::Arc};
use train::{
    Architecture, Error, ModelConfig, Result,
    architecture::{Text, model_of},
    batches::Values,
    config::{Key, Numbers, Section, check_counts, check_numbers},
    foreign::Format,
};

/// Which architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GptFamily {
    /// LayerNorm, learnt positions, GELU, biases.
    #[default]
    Gpt2,
    /// RMSNorm, rotary positions, SwiGLU, no biases.
    Llama,
}

/// The most blocks; each costs memory and time before the first step.
const MOST_LAYERS: usize = 1 << 12;
/// The widest residual stream, and the most heads.
const MOST_HIDDEN: usize = 1 << 20;
/// The longest context, the widest MLP, and the largest multiple to which a vocabulary is padded. A product of three sizes
/// still counts bytes in 64 bits.
const MOST: usize = 1 << 22;
/// The most tokens of a vocabulary, whose ids have 32 bits.
const MOST_TOKENS: usize = 1 << 32;

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
        /// Whether queries, keys and values have biases in the Llama family, as in Qwen 2; in GPT-2 they always do.
        pub qkv_bias: bool,
        /// Width inside the MLP; 0 means 4 times the hidden size (GPT-2), or 8/3 of it, rounded up to a multiple of 8 (Llama).
        pub mlp_hidden: usize,
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
        /// Stretches rotary positions, for a context beyond that of the first training: `none`, `linear:FACTOR`, or
        /// `llama3:FACTOR:LOW:HIGH:CONTEXT`, which leaves wavelengths below CONTEXT / HIGH tokens as they are.
        pub rope_scaling: RopeScaling,
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
            mlp_hidden: 0,
            context: 128,
            vocabulary: 0,
            pad_vocabulary_to: 1,
            tied_head: true,
            document_end: DocumentEnd::default(),
            dropout: 0.0,
            norm_epsilon: 1e-5,
            rope_base: 10_000.0,
            rope_scaling: RopeScaling::None,
            init_deviation: 0.02,
        }
    }
}

impl GptConfig {
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
        self.family == GptFamily::Gpt2 || self.qkv_bias
    }

    /// Width inside the MLP.
    pub fn mlp_hidden(&self) -> usize {
        match (self.mlp_hidden, self.family) {
            (0, GptFamily::Gpt2) => 4 * self.hidden,
            (0, GptFamily::Llama) => (8 * self.hidden).div_ceil(3).next_multiple_of(8),
            (size, _) => size,
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

    /// Number of weights; those of a tied head count once.
    pub fn num_parameters(&self) -> usize {
        let (h, mlp) = (self.hidden, self.mlp_hidden());
        let (q, kv) = (self.query_width(), self.key_width());
        let biases = if self.has_qkv_bias() { q + 2 * kv } else { 0 };
        let attention = 2 * h * q + 2 * h * kv + biases;
        let block = match self.family {
            GptFamily::Gpt2 => attention + 2 * h * mlp + mlp + 2 * h + 4 * h,
            GptFamily::Llama => attention + 3 * h * mlp + 2 * h,
        };
        let table = self.padded_vocabulary() * h;
        let ends = match self.family {
            GptFamily::Gpt2 => table + self.context * h + 2 * h,
            GptFamily::Llama => table + h,
        };
        self.layers * block + ends + if self.tied_head { 0 } else { table }
    }

    /// Flop of GEMMs and attention per token, forward and backward, as published figures count them: 6 for each
    /// weight of a GEMM, and 12 x layers x query features x context for attention, half of which is never computed.
    pub fn flop_per_token(&self) -> f64 {
        let (h, mlp) = (self.hidden, self.mlp_hidden());
        let (q, kv) = (self.query_width(), self.key_width());
        let mats = if self.family == GptFamily::Gpt2 { 2 } else { 3 };
        let weights =
            self.layers * (2 * h * q + 2 * h * kv + mats * h * mlp) + self.padded_vocabulary() * h;
        6.0 * weights as f64 + 12.0 * (self.layers * q * self.context) as f64
    }

    /// Checks the sizes; an error names the problem in one sentence.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first of: a size of 0 or beyond its bound, a number that is not above 0, heads that
    /// do not divide the width, query heads that do not divide by key heads, odd rotary heads, a document's end that is no
    /// token, a dropout outside [0, 1).
    fn check_sizes(&self) -> Result<()> {
        let refuse = |key: &str, found, needed: &str| {
            Err(Error::setting(format!("model.{key}"), found, needed))
        };
        check_counts(
            "model",
            &[
                ("layers", self.layers, 1..=MOST_LAYERS),
                ("hidden", self.hidden, 1..=MOST_HIDDEN),
                ("heads", self.heads, 1..=MOST_HIDDEN),
                ("context", self.context, 1..=MOST),
                ("vocabulary", self.vocabulary, 1..=MOST_TOKENS),
                ("mlp_hidden", self.mlp_hidden, 0..=MOST),
                ("head_size", self.head_size, 0..=MOST_HIDDEN),
                ("pad_vocabulary_to", self.pad_vocabulary_to, 1..=MOST),
            ],
        )?;
        check_numbers(
            "model",
            &[
                ("norm_epsilon", self.norm_epsilon, Numbers::Positive),
                ("rope_base", self.rope_base, Numbers::Positive),
                ("init_deviation", self.init_deviation, Numbers::Positive),
            ],
        )?;
        if self.heads.saturating_mul(self.head_size()) > MOST {
            let found = format!("{} with heads = {}", self.head_size(), self.heads);
            return refuse(
                "head_size",
                found,
                &format!("at most {MOST} features of all heads"),
            );
        }
        if self.head_size == 0 && !self.hidden.is_multiple_of(self.heads) {
            let found = format!("{} with heads = {}", self.hidden, self.heads);
            return refuse("hidden", found, "a multiple of the heads");
        }
        if !self.heads.is_multiple_of(self.kv_heads()) {
            let found = format!("{} with kv_heads = {}", self.heads, self.kv_heads());
            return refuse("heads", found, "a multiple of the key and value heads");
        }
        if self.family == GptFamily::Llama && !self.head_size().is_multiple_of(2) {
            let found = format!("{}, of {} elements each", self.heads, self.head_size());
            return refuse("heads", found, "heads of an even size for rotary positions");
        }
        self.rope_scaling.check()?;
        let is_plain = !self.qkv_bias && self.rope_scaling == RopeScaling::None;
        if self.family == GptFamily::Gpt2 && !is_plain {
            let key = if self.qkv_bias {
                "qkv_bias"
            } else {
                "rope_scaling"
            };
            return refuse(
                key,
                "a value with family = \"gpt2\"".into(),
                "family = \"llama\"",
            );
        }
        if let Some(end) = self
            .document_end
            .0
            .filter(|end| *end as usize >= self.vocabulary)
        {
            let needed = format!("`none`, or a token below vocabulary = {}", self.vocabulary);
            return refuse("document_end", end.to_string(), &needed);
        }
        match (0.0..1.0).contains(&self.dropout) {
            true => Ok(()),
            false => refuse(
                "dropout",
                self.dropout.to_string(),
                "a number from 0 to below 1",
            ),
        }
    }
}

impl Architecture for GptConfig {
    fn family(&self) -> &str {
        self.family.name()
    }

    fn table(&self) -> Result<toml::Table> {
        toml::Table::try_from(self)
            .map_err(|error| Error::setting("model", error, "values that TOML can hold"))
    }

    fn documented_keys(&self) -> Vec<Key> {
        GptConfig::keys()
    }

    fn describe(&self) -> String {
        let title = match self.family {
            GptFamily::Gpt2 => "GPT-2",
            GptFamily::Llama => "Llama",
        };
        let plural = |count: usize, word: &str| {
            format!("{count} {word}{}", if count == 1 { "" } else { "s" })
        };
        format!(
            "{title}: {}, width {}, {} of {}, context {}, vocabulary {}, {}{}",
            plural(self.layers, "layer"),
            self.hidden,
            plural(self.heads, "head"),
            self.head_size(),
            self.context,
            self.vocabulary,
            if self.tied_head {
                "tied head"
            } else {
                "a head of its own"
            },
            self.document_end.0.map_or_else(String::new, |end| {
                format!(", documents that end with token {end}")
            })
        )
    }

    fn build(&self, builder: &Builder) -> parallel::Result<Box<dyn Model>> {
        Ok(Box::new(Gpt::new(builder, self)?))
    }

    fn columns(&self) -> Vec<(String, Vec<usize>, Values)> {
        let tokens = |name: &str| {
            let values = Values::Ids(vec![0; self.context]);
            (name.to_owned(), vec![self.context], values)
        };
        vec![tokens("inputs"), tokens("targets")]
    }

    fn demands(&self) -> Demands {
        Demands {
            heads: self.heads,
            kv_heads: self.kv_heads(),
            sequence: self.context,
            hidden: self.hidden,
            mlp_hidden: self.mlp_hidden(),
            vocabulary: self.padded_vocabulary(),
            stages: self.num_segments(),
            ..Demands::default()
        }
    }

    fn check(&self) -> Result<()> {
        self.check_sizes()
    }

    fn flop_per_row(&self) -> Option<f64> {
        Some(self.flop_per_token() * self.context as f64)
    }

    /// # Source
    /// For GPT-2, Narayanan et al., SC 2021 (arXiv 2104.04473): 96 B s l h^2 (1 + s/(6h) + V/(16 l h)), with 72
    /// in place of 96 without recomputation. For a Llama, the same count is made from its own matrices.
    fn published_flop_per_row(&self, recompute: bool) -> Option<f64> {
        let factor = if recompute { 96.0 } else { 72.0 };
        if self.family == GptFamily::Llama {
            return Some(self.flop_per_row()? * factor / 72.0);
        }
        let (layers, h, s) = (self.layers as f64, self.hidden as f64, self.context as f64);
        let vocabulary = self.vocabulary as f64;
        Some(factor * s * layers * h * h * (1.0 + s / (6.0 * h) + vocabulary / (16.0 * layers * h)))
    }

    fn draws_masks(&self) -> bool {
        self.dropout > 0.0
    }

    fn text(&self) -> Option<Text> {
        Some(Text {
            context: self.context,
            vocabulary: self.vocabulary,
        })
    }

    fn separates_samples(&self) -> bool {
        true
    }

    fn with_vocabulary(&self, vocabulary: usize) -> Option<ModelConfig> {
        Some(ModelConfig::new(GptConfig {
            vocabulary,
            ..self.clone()
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl From<GptConfig> for ModelConfig {
    fn from(config: GptConfig) -> ModelConfig {
        ModelConfig::new(config)
    }
}

impl train::Family for GptFamily {
    fn name(&self) -> &str {
        GptFamily::name(*self)
    }

    fn read(&self, document: &str) -> std::result::Result<ModelConfig, toml::de::Error> {
        model_of::<GptConfig>(document).map(ModelConfig::new)
    }

    fn keys(&self) -> Vec<Key> {
        GptConfig::keys()
    }

    fn keys_of(
        &self,
        shape: &dyn Fn(&str) -> Option<Vec<usize>>,
        given: &toml::Table,
    ) -> Vec<(&'static str, toml::Value)> {
        stored::keys(shape, given)
    }

    fn models(&self) -> Vec<String> {
        match self {
            GptFamily::Gpt2 => published::names(),
            GptFamily::Llama => Vec::new(),
        }
    }

    fn model(&self, name: &str) -> Option<ModelConfig> {
        let found = published::find(name).filter(|_| *self == GptFamily::Gpt2);
        found.map(ModelConfig::new)
    }

    fn format(&self) -> Option<Arc<dyn Format>> {
        Some(match self {
            GptFamily::Gpt2 => Arc::new(Gpt2Format),
            GptFamily::Llama => Arc::new(LlamaFormat),
        })
    }
}

impl train::config::KeyType for GptFamily {
    fn values() -> String {
        "`gpt2` or `llama`".to_owned()
    }
}

impl GptFamily {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            GptFamily::Gpt2 => "gpt2",
            GptFamily::Llama => "llama",
        }
    }
}
