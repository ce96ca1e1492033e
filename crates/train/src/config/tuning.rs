//! The section `tuning`: which parameters are trained.

use super::{Numbers, check_counts, check_numbers};
use crate::{Error, Result};
use nn::{Adapters, Pattern, Tuning};
use parallel::Quantised;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The largest rank of an adapter.
const MOST_RANK: usize = 1 << 16;

/// How frozen weights are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrozenWeights {
    /// In the type of activations.
    #[default]
    Compute,
    /// As codes of 8 bits: integers.
    Int8,
    /// As codes of 4 bits: NormalFloat.
    Nf4,
}

impl FrozenWeights {
    /// All ways, the widest first.
    const ALL: [FrozenWeights; 3] = [
        FrozenWeights::Compute,
        FrozenWeights::Int8,
        FrozenWeights::Nf4,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            FrozenWeights::Compute => "compute",
            FrozenWeights::Int8 => "int8",
            FrozenWeights::Nf4 => "nf4",
        }
    }

    /// The format of the codes, if they are codes.
    pub const fn quantised(self) -> Option<Quantised> {
        match self {
            FrozenWeights::Compute => None,
            FrozenWeights::Int8 => Some(Quantised::Int8),
            FrozenWeights::Nf4 => Some(Quantised::Nf4),
        }
    }
}

impl fmt::Display for FrozenWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FrozenWeights {
    type Err = Error;

    /// One of the [words](FrozenWeights::name).
    fn from_str(text: &str) -> Result<FrozenWeights> {
        let mut all = FrozenWeights::ALL.into_iter();
        let named = all.find(|weights| weights.name() == text);
        named.ok_or_else(|| {
            let found = format!("`{text}`");
            Error::setting("frozen weights", found, "compute, int8 or nf4")
        })
    }
}

crate::section! {
    /// Which parameters are trained: all by default, or some by name, or adapters of low rank alone. A name in a list is that of a
    /// layer or parameter, or its end behind a dot; `*` stands for any characters.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct TuningConfig {
        /// Parameters that are not trained: they have no gradient, no optimiser state and no traffic along Data. As in
        /// `["embedding.*", "blocks.0.*"]`.
        pub frozen: Vec<String>,
        /// How frozen weights of hidden linear layers are stored: in the type of activations, or as codes of 8 or 4 bits with a scale
        /// for each 64 weights of a row. Each use of a layer computes its weights from the codes.
        pub frozen_weights: FrozenWeights,
        /// Rank of the adapters (LoRA); 0: none. With adapters, only they are trained.
        pub adapter_rank: usize,
        /// What an adapter adds is multiplied by this and divided by its rank.
        pub adapter_alpha: f64,
        /// Whether it is divided by the root of the rank instead (rsLoRA).
        pub adapter_stabilised: bool,
        /// Whether the lengths of a weight's columns are trained by themselves, and adapters change its directions alone (DoRA).
        pub adapter_decomposed: bool,
        /// The linear layers that have an adapter.
        pub adapter_targets: Vec<String>,
        /// Parameters that are trained beside the adapters, such as `["head.weight"]`.
        pub adapter_trained: Vec<String>,
    }
}

impl Default for TuningConfig {
    fn default() -> Self {
        TuningConfig {
            frozen: Vec::new(),
            frozen_weights: FrozenWeights::Compute,
            adapter_rank: 0,
            adapter_alpha: 16.0,
            adapter_stabilised: false,
            adapter_decomposed: false,
            adapter_targets: vec!["attention.*".to_owned()],
            adapter_trained: Vec::new(),
        }
    }
}

impl TuningConfig {
    /// That of a model of which no step trains anything.
    pub fn all_frozen(frozen_weights: FrozenWeights) -> TuningConfig {
        let frozen = match frozen_weights {
            FrozenWeights::Compute => Vec::new(),
            FrozenWeights::Int8 | FrozenWeights::Nf4 => vec!["*".to_owned()],
        };
        TuningConfig {
            frozen,
            frozen_weights,
            ..TuningConfig::default()
        }
    }

    /// What is wrong with the values.
    ///
    /// # Errors
    /// [`Error::Setting`] for a rank beyond its bound, an alpha that is not positive, adapters without targets, decomposed ones
    /// without a rank, and codes of frozen weights where nothing is frozen.
    pub fn check(&self) -> Result<()> {
        let rank = ("adapter_rank", self.adapter_rank, 0..=MOST_RANK);
        check_counts("tuning", &[rank])?;
        let alpha = ("adapter_alpha", self.adapter_alpha, Numbers::Positive);
        check_numbers("tuning", &[alpha])?;
        if self.adapter_decomposed && self.adapter_rank == 0 {
            let needed = "tuning.adapter_rank of at least 1";
            return Err(Error::setting("tuning.adapter_decomposed", "true", needed));
        }
        if let Some(format) = self.frozen_weights.quantised()
            && self.adapter_rank == 0
            && self.frozen.is_empty()
        {
            let needed = "tuning.adapter_rank of at least 1, or names in tuning.frozen";
            return Err(Error::setting("tuning.frozen_weights", format, needed));
        }
        match self.adapter_rank > 0 && self.adapter_targets.is_empty() {
            true => Err(Error::setting(
                "tuning.adapter_targets",
                "none",
                format!("layers for adapters of rank {}", self.adapter_rank),
            )),
            false => Ok(()),
        }
    }

    /// What it asks of the layers.
    pub fn tuning(&self) -> Tuning {
        let patterns = |names: &[String]| names.iter().map(Pattern::new).collect();
        Tuning {
            frozen: patterns(&self.frozen),
            quantised: self.frozen_weights.quantised(),
            adapters: (self.adapter_rank > 0).then(|| Adapters {
                rank: self.adapter_rank,
                scale: self.scale(),
                decomposed: self.adapter_decomposed,
                targets: patterns(&self.adapter_targets),
                trained: patterns(&self.adapter_trained),
            }),
        }
    }

    /// The factor of what an adapter adds.
    pub fn scale(&self) -> f64 {
        let rank = self.adapter_rank.max(1) as f64;
        match self.adapter_stabilised {
            true => self.adapter_alpha / rank.sqrt(),
            false => self.adapter_alpha / rank,
        }
    }
}
