//! The ways of attention where Context cuts the sequences.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use tensor::{Error, Result};

/// How attention meets the keys and values of other ranks, where Context cuts the sequences; written `gather`, `heads`,
/// `ring` or `ring:4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ContextAttention {
    /// Keys and values of all tokens are gathered, forward and again in backward, and their gradients reduce-scattered. Serves
    /// any number of heads and tokens.
    #[default]
    Gather,
    /// Tokens are exchanged for heads by all-to-alls of queries, keys, values and results. The ranks must divide the heads of
    /// queries and of keys on a rank of X. Sequences that do not divide into equal chunks have their keys gathered.
    Heads,
    /// Keys and values pass from rank to rank, beside the attention on those that are here. Their gradients follow them. Serves
    /// any number of heads and tokens, and no rank ever holds the keys of more than two.
    Ring {
        /// Neighbours that exchange tokens for heads first; the ring then leads through groups of so many ranks. It divides
        /// the ranks, and the heads of queries and of keys on a rank of X. Sequences that do not divide into equal chunks
        /// pass from rank to rank.
        exchange: usize,
    },
}

impl ContextAttention {
    /// Keys and values pass from rank to rank.
    pub const RING: ContextAttention = ContextAttention::Ring { exchange: 1 };

    /// Of `ranks` ranks of Context, how many neighbours exchange tokens for heads; 1 if none do.
    pub fn exchange(self, ranks: usize) -> usize {
        match self {
            ContextAttention::Gather => 1,
            ContextAttention::Heads => ranks,
            ContextAttention::Ring { .. } if ranks == 1 => 1,
            ContextAttention::Ring { exchange } => exchange,
        }
    }
}

impl fmt::Display for ContextAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextAttention::Gather => f.write_str("gather"),
            ContextAttention::Heads => f.write_str("heads"),
            ContextAttention::Ring { exchange: 1 } => f.write_str("ring"),
            ContextAttention::Ring { exchange } => write!(f, "ring:{exchange}"),
        }
    }
}

impl FromStr for ContextAttention {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (word, number) = match text.split_once(':') {
            Some((word, number)) => (word, number.parse().ok().filter(|number| *number > 0)),
            None => (text, Some(1)),
        };
        match (word, number) {
            ("gather", _) if word == text => Ok(ContextAttention::Gather),
            ("heads", _) if word == text => Ok(ContextAttention::Heads),
            ("ring", Some(exchange)) => Ok(ContextAttention::Ring { exchange }),
            _ => Err(Error::invalid(
                "context_attention",
                format!("found `{text}`"),
                "gather, heads, ring, or ring:N with the number of ranks that exchange heads",
            )),
        }
    }
}

impl TryFrom<String> for ContextAttention {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ContextAttention> for String {
    fn from(way: ContextAttention) -> String {
        way.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for way in ["gather", "heads", "ring", "ring:2", "ring:16"] {
            let read: ContextAttention = way.parse().unwrap();
            assert_eq!(read.to_string(), way);
        }
        for wrong in [
            "", "rings", "ring:", "ring:0", "ring:-1", "ring:2:2", "heads:2", "gather:1",
        ] {
            let error = wrong.parse::<ContextAttention>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }
}
