//! Models of published runs, by name.

use super::GptConfig;

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

/// The names that [`find`] accepts.
pub(super) fn names() -> Vec<String> {
    TABLE
        .iter()
        .map(|(name, ..)| format!("gpt-{name}"))
        .collect()
}

/// The model with this name: `gpt-40b`, or `40B`.
pub(super) fn find(name: &str) -> Option<GptConfig> {
    let lower = name.to_ascii_lowercase();
    let short = lower.strip_prefix("gpt-").unwrap_or(&lower);
    let found = TABLE.iter().find(|(name, ..)| *name == short);
    found.map(|&(_, layers, hidden, heads)| published(layers, hidden, heads))
}

/// A GPT of these sizes, with the vocabulary and context of the published runs.
pub fn published(layers: usize, hidden: usize, heads: usize) -> GptConfig {
    GptConfig {
        layers,
        hidden,
        heads,
        context: 2048,
        vocabulary: 51_200,
        tied_head: true,
        ..GptConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_sizes_agree() {
        for name in names() {
            let model = find(&name).unwrap();
            let billions: f64 = name
                .trim_start_matches("gpt-")
                .trim_end_matches('b')
                .parse()
                .unwrap();
            let found = model.num_parameters() as f64 / 1e9;
            assert!((found / billions - 1.0).abs() < 0.09, "{name}: {found}");
        }
        assert_eq!(find("40B"), find("gpt-40b"));
    }
}
