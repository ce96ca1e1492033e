//! Ways to train parts of a model.

use train::config::{FrozenWeights, TuningConfig};

/// Parameters of these names frozen; and adapters of this rank on attention and MLP: plain and decomposed ones, each over plain
/// weights and over codes.
pub fn tunings(adapter_rank: usize, frozen: &[&str]) -> Vec<TuningConfig> {
    let frozen = TuningConfig {
        frozen: frozen.iter().map(|name| (*name).to_owned()).collect(),
        ..TuningConfig::default()
    };
    let adapted = |adapter_decomposed, frozen_weights| TuningConfig {
        adapter_rank,
        adapter_decomposed,
        frozen_weights,
        adapter_targets: vec!["attention.*".into(), "mlp.*".into()],
        ..TuningConfig::default()
    };
    vec![
        frozen,
        adapted(false, FrozenWeights::Compute),
        adapted(true, FrozenWeights::Compute),
        adapted(false, FrozenWeights::Nf4),
        adapted(false, FrozenWeights::Int8),
        adapted(true, FrozenWeights::Nf4),
    ]
}
