//! What the bits of a run depend on: as it was written down, or as the model, the grid and the device allow.

use parallel::Reproducible;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What the bits of a run depend on. Written as `auto`, `run` or `grid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum BitsChoice {
    /// On no grid where the device, the model and the grid allow that; otherwise on the grid too. A run
    /// [settles](crate::run::settle_bits) this before its first step, and records what it uses.
    #[default]
    Auto,
    /// On this.
    Fixed(Reproducible),
}

impl BitsChoice {
    /// The choice, as far as it is known before it is settled.
    pub fn or_run(self) -> Reproducible {
        match self {
            BitsChoice::Auto => Reproducible::Run,
            BitsChoice::Fixed(reproducible) => reproducible,
        }
    }
}

impl fmt::Display for BitsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BitsChoice::Auto => f.write_str("auto"),
            BitsChoice::Fixed(reproducible) => reproducible.fmt(f),
        }
    }
}

impl FromStr for BitsChoice {
    type Err = hal::Error;

    /// # Errors
    /// [`hal::Error::Invalid`] for any other word.
    fn from_str(text: &str) -> hal::Result<Self> {
        match text {
            "auto" => Ok(BitsChoice::Auto),
            fixed => fixed.parse().map(BitsChoice::Fixed).map_err(|_| {
                hal::Error::invalid(
                    "reproducible",
                    format!("found `{text}`"),
                    "auto, run or grid",
                )
            }),
        }
    }
}

impl TryFrom<String> for BitsChoice {
    type Error = hal::Error;

    fn try_from(text: String) -> hal::Result<Self> {
        text.parse()
    }
}

impl From<BitsChoice> for String {
    fn from(choice: BitsChoice) -> String {
        choice.to_string()
    }
}

impl From<Reproducible> for BitsChoice {
    fn from(reproducible: Reproducible) -> BitsChoice {
        BitsChoice::Fixed(reproducible)
    }
}
