//! What replicas along Data hold in shards.

use crate::{CutFirst, RowCut};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{fmt, str::FromStr};
use tensor::{Error, Result};

/// What replicas along Data hold in shards instead of copies. Each value includes those before it.
///
/// Weights are sharded by axis Z, whose ranks gather them for their use: `z=8` instead of `data=8` is ZeRO stage 3, and
/// `z=4,data=2` shards in groups of 4 ranks of which there are 2 copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharding {
    /// Nothing: every replica updates all weights.
    #[default]
    None,
    /// The optimiser's state (ZeRO stage 1): a replica updates its part of the weights and receives the others.
    Optimiser,
    /// Gradients too (ZeRO stage 2): those of a micro-batch are summed into shards, bucket by bucket, and freed.
    Gradients,
}

impl Sharding {
    /// All values.
    pub const ALL: [Sharding; 3] = [Sharding::None, Sharding::Optimiser, Sharding::Gradients];

    /// Whether the optimiser's state is sharded.
    pub fn shards_state(self) -> bool {
        self >= Sharding::Optimiser
    }

    /// How a batch is cut for it: where gradients of micro-batches are summed over replicas, the rows of a micro-batch are
    /// neighbours, so that fewer of its sums wait for those of others.
    pub fn cut(self, cut: RowCut) -> RowCut {
        let first = match self.shards_gradients() {
            true => CutFirst::MicroBatches,
            false => CutFirst::Replicas,
        };
        RowCut { first, ..cut }
    }

    /// Whether gradients are.
    pub fn shards_gradients(self) -> bool {
        self >= Sharding::Gradients
    }
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sharding::None => "none",
            Sharding::Optimiser => "optimiser",
            Sharding::Gradients => "gradients",
        })
    }
}

impl FromStr for Sharding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = |value: &Sharding| value.to_string() == text;
        Sharding::ALL.into_iter().find(found).ok_or_else(|| {
            let needed = match text {
                "weights" => "none, optimiser or gradients; weights are sharded by axis z: z=8 instead of data=8",
                _ => "none, optimiser or gradients",
            };
            Error::invalid("sharding", format!("found `{text}`"), needed)
        })
    }
}

impl<'de> Deserialize<'de> for Sharding {
    // Earlier configurations say whether the optimiser's state is sharded.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Sharding;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, optimiser or gradients")
            }

            fn visit_bool<E>(self, shards_state: bool) -> std::result::Result<Sharding, E> {
                Ok(match shards_state {
                    true => Sharding::Optimiser,
                    false => Sharding::None,
                })
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Sharding, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
