//! Which sizes a model can have.

use super::{GptConfig, RopeScaling};
use train::{
    Error, Result,
    config::{Numbers, check_counts, check_numbers},
};

/// The most blocks; each costs memory and time before the first step.
const MOST_LAYERS: usize = 1 << 12;
/// The widest residual stream, and the most heads.
const MOST_HIDDEN: usize = 1 << 20;
/// The longest context, the widest MLP, and the largest multiple to which a vocabulary is padded. A product of three sizes
/// still counts bytes in 64 bits.
const MOST: usize = 1 << 22;
/// The most tokens of a vocabulary, whose ids have 32 bits.
const MOST_TOKENS: usize = 1 << 32;

impl GptConfig {
    /// Checks the sizes; an error names the problem in one sentence.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first of: a size of 0 or beyond its bound, a number that is not above 0, heads that
    /// do not divide the width, query heads that do not divide by key heads, odd rotary heads, keys for which the family has no
    /// use, a document's end that is no token, a dropout outside [0, 1).
    pub(super) fn check_sizes(&self) -> Result<()> {
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
                ("score_size", self.score_size, 0..=MOST_HIDDEN),
                ("sliding_window", self.sliding_window, 0..=MOST),
                ("local_blocks", self.local_blocks, 0..=MOST_LAYERS),
                ("pad_vocabulary_to", self.pad_vocabulary_to, 1..=MOST),
            ],
        )?;
        check_numbers(
            "model",
            &[
                ("norm_epsilon", self.norm_epsilon, Numbers::Positive),
                ("rope_base", self.rope_base, Numbers::Positive),
                ("local_rope_base", self.local_rope_base, Numbers::Positive),
                ("init_deviation", self.init_deviation, Numbers::Positive),
                ("score_cap", self.score_cap, Numbers::NotNegative),
                ("logit_cap", self.logit_cap, Numbers::NotNegative),
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
        let is_rotary = self.design().is_rotary();
        if is_rotary && self.rotary_size == 0 && !self.head_size().is_multiple_of(2) {
            let found = format!("{}, of {} elements each", self.heads, self.head_size());
            return refuse("heads", found, "heads of an even size for rotary positions");
        }
        if !self.rotary_size.is_multiple_of(2) || self.rotary_size > self.head_size() {
            let needed = format!("an even number up to the head size of {}", self.head_size());
            return refuse("rotary_size", self.rotary_size.to_string(), &needed);
        }
        self.rope_scaling.check()?;
        let found = format!("a value with family = \"{}\"", self.family.name());
        if self.qkv_bias && self.design().biases {
            return refuse("qkv_bias", found, "a family without biases");
        }
        if self.rope_scaling != RopeScaling::None && !is_rotary {
            return refuse("rope_scaling", found, "a family with rotary positions");
        }
        if self.local_blocks != 0 && !is_rotary {
            return refuse("local_blocks", found, "a family with rotary positions");
        }
        if self.rotary_size != 0 && !is_rotary {
            return refuse("rotary_size", found, "a family with rotary positions");
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
