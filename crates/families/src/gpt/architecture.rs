//! What the trainer and the planner ask of a model.

use super::{Gpt, GptConfig, GptFamily};
use grid::Demands;
use nn::Builder;
use parallel::Model;
use std::any::Any;
use train::{
    Architecture, Error, ModelConfig, Result,
    architecture::Text,
    batches::Values,
    config::{Key, Section},
};

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
        let plural = |count: usize, word: &str| {
            format!("{count} {word}{}", if count == 1 { "" } else { "s" })
        };
        format!(
            "{}: {}, width {}, {} of {}, context {}{}, vocabulary {}, {}{}",
            self.design().title,
            plural(self.layers, "layer"),
            self.hidden,
            plural(self.heads, "head"),
            self.head_size(),
            self.context,
            match self.sliding_window {
                0 => String::new(),
                window => format!(" with windows of {window}"),
            },
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
    /// in place of 96 without recomputation. For other families, and with windows, the same count is made from their own matrices.
    fn published_flop_per_row(&self, recompute: bool) -> Option<f64> {
        let factor = if recompute { 96.0 } else { 72.0 };
        if self.family != GptFamily::Gpt2 || self.sliding_window > 0 {
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
