//! A number with where it comes from.

use serde::{Deserialize, Serialize};

/// How a number was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Read off a run, by us or by the source named.
    Measured,
    /// Stated by the maker or the site.
    Datasheet,
    /// Chosen so that predictions agree with measurements; the source says which.
    Fitted,
}

/// A number, its class and its source. The unit is part of the field's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// How it was come by.
    pub class: Class,
    /// Where it stands, or how it was measured.
    pub source: String,
}

impl Quantity {
    /// A number that was measured in a way that `source` tells.
    pub fn measured(value: f64, source: impl Into<String>) -> Quantity {
        Quantity {
            value,
            class: Class::Measured,
            source: source.into(),
        }
    }

    /// What is wrong with it as a positive number, if anything is.
    pub(super) fn complaint(&self, name: &str) -> Option<String> {
        if !self.value.is_finite() || self.value <= 0.0 {
            return Some(format!(
                "{name}: found {}, needed a number above 0",
                self.value
            ));
        }
        self.source.trim().is_empty().then(|| {
            format!(
                "{name}: found no source, needed where {} comes from",
                self.value
            )
        })
    }
}
