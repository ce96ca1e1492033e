//! Models by name, and the work that a step of theirs is counted as.

use crate::{Error, Result};
use nn::{GptConfig, gpt::Family};
use std::path::Path;

/// Name, layers, width and heads of the models of AxoNN's weak-scaling runs.
///
/// # Source
/// Singh et al., SC 2024, table of model sizes. Vocabulary 51,200, 2,048 tokens.
const TABLE: [(&str, usize, usize, usize); 12] = [
    ("5b", 24, 4096, 32),
    ("10b", 32, 5120, 40),
    ("20b", 32, 7168, 56),
    ("40b", 38, 9216, 72),
    ("50b", 48, 9216, 72),
    ("60b", 56, 9216, 72),
    ("80b", 42, 12_288, 96),
    ("100b", 53, 12_288, 96),
    ("160b", 84, 12_288, 96),
    ("175b", 96, 12_288, 96),
    ("320b", 96, 16_384, 128),
    ("640b", 192, 16_384, 128),
];

/// The names that [`find`] knows.
pub fn names() -> Vec<String> {
    TABLE
        .iter()
        .map(|(name, ..)| format!("gpt-{name}"))
        .collect()
}

/// The model of that name (`gpt-40b`, `40B`), or of that configuration file; with its name.
///
/// # Errors
/// [`Error::Request`] with the known names; those of a file that is no configuration.
pub fn find(name_or_path: &str) -> Result<(String, GptConfig)> {
    let lower = name_or_path.to_ascii_lowercase();
    let short = lower.strip_prefix("gpt-").unwrap_or(&lower);
    if let Some(&(name, layers, hidden, heads)) = TABLE.iter().find(|(name, ..)| *name == short) {
        return Ok((format!("gpt-{name}"), gpt(layers, hidden, heads)));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let known = names().join(", ");
        return Err(Error::Request(format!(
            "model `{name_or_path}`: no such file, and none of {known}"
        )));
    }
    let mut model = train::Config::read(path)?.model;
    // Which vocabulary it is depends on the data; bytes unless the file says otherwise.
    model.vocabulary = if model.vocabulary == 0 {
        256
    } else {
        model.vocabulary
    };
    Ok((path.display().to_string(), model))
}

/// A GPT of these sizes, with the vocabulary and context of the published runs.
pub fn gpt(layers: usize, hidden: usize, heads: usize) -> GptConfig {
    GptConfig {
        layers,
        hidden,
        heads,
        context: 2048,
        vocabulary: 51_200,
        tied_head: true,
        recompute: true,
        ..GptConfig::default()
    }
}

/// Flop of an iteration as the field counts them: with full recomputation the second forward is work too.
///
/// # Source
/// Narayanan et al., SC 2021 (arXiv 2104.04473): 96 B s l h^2 (1 + s/(6h) + V/(16 l h)), 72 in place of 96 without
/// recomputation. For a Llama the same count is made from its own matrices.
pub fn flop_per_step(model: &GptConfig, batch: usize, recompute: bool) -> f64 {
    let tokens = (batch * model.context) as f64;
    if model.family != Family::Gpt2 {
        return tokens * model.flop_per_token() * if recompute { 4.0 / 3.0 } else { 1.0 };
    }
    let (layers, h, s) = (
        model.layers as f64,
        model.hidden as f64,
        model.context as f64,
    );
    let factor = if recompute { 96.0 } else { 72.0 };
    let vocabulary = model.vocabulary as f64;
    factor * tokens * layers * h * h * (1.0 + s / (6.0 * h) + vocabulary / (16.0 * layers * h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_sizes_agree() {
        for name in names() {
            let (_, model) = find(&name).unwrap();
            let billions: f64 = name
                .trim_start_matches("gpt-")
                .trim_end_matches('b')
                .parse()
                .unwrap();
            let found = model.num_parameters() as f64 / 1e9;
            assert!((found / billions - 1.0).abs() < 0.09, "{name}: {found}");
        }
        assert_eq!(find("40B").unwrap().0, "gpt-40b");
    }

    #[test]
    fn an_unknown_model_is_told_the_known_ones() {
        let text = find("gpt-9b").unwrap_err().to_string();
        assert!(
            text.contains("`gpt-9b`") && text.contains("gpt-640b"),
            "{text}"
        );
    }

    #[test]
    fn the_published_speed_follows_from_the_published_count() {
        // 620.1 Pflop/s on 4,096 devices is 8.8 s for 16.8M tokens of the 40B model.
        let (_, model) = find("40b").unwrap();
        let seconds = flop_per_step(&model, 8192, true) / 620.1e15;
        assert!((seconds - 8.77).abs() < 0.05, "{seconds}");
    }
}
